// A run captured as a CUDA graph, to be replayed.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "backends/cuda/driver/device.h"
#include "epifuse/program.h"

namespace epifuse {

class CapturedRun {
 public:
  // Captures what `run` queues on the stream it is given. A call in it that waits for the device
  // fails; what `run` throws ends the capture.
  CapturedRun(std::shared_ptr<const cuda::Device> device, const std::function<void(Stream)>& run)
      : device_(std::move(device)) {
    const jit::DriverApi& api = device_->api();
    device_->check(api.stream_create(&stream_, 1), "cuStreamCreate");
    device_->check(api.stream_begin_capture(stream_, jit::CuStreamCaptureMode::global), "begin");
    try {
      run(stream_);
    } catch (...) {
      api.stream_end_capture(stream_, &graph_);
      api.stream_destroy(stream_);
      throw;
    }
    device_->check(api.stream_end_capture(stream_, &graph_), "cuStreamEndCapture");
    device_->check(api.graph_instantiate(&executable_, graph_, 0), "cuGraphInstantiate");
  }
  CapturedRun(const CapturedRun&) = delete;
  CapturedRun& operator=(const CapturedRun&) = delete;
  ~CapturedRun() {
    device_->api().graph_exec_destroy(executable_);
    device_->api().graph_destroy(graph_);
    device_->api().stream_destroy(stream_);
  }

  // On a stream of its own, which waits for no other.
  void replay() const {
    device_->check(device_->api().graph_launch(executable_, stream_), "cuGraphLaunch");
  }

 private:
  std::shared_ptr<const cuda::Device> device_;
  jit::CuStream stream_ = nullptr;
  jit::CuGraph graph_ = nullptr;
  jit::CuGraphExec executable_ = nullptr;
};

}  // namespace epifuse
