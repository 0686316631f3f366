// Developer's tool: writes the cubin of every kernel of the corpus, to be compared by
// compare_cubins.py with those of another commit.
//   rtc_dump_corpus FOLDER [FAMILY TARGET]: of all kernels, or of a family's for a target
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/parallel.h"
#include "corpus_kernels.h"
#include "epifuse/error.h"
#include "jit/jit.h"

namespace {

using epifuse::rtc::CorpusKernel;

// "attention_3_tail": the graph, a running number of its own, what it is. None holds a '/'.
std::vector<std::string> file_names(const std::vector<CorpusKernel>& kernels) {
  std::map<std::string, int> numbers;
  std::vector<std::string> names;
  for (const CorpusKernel& kernel : kernels) {
    std::string name = fmt::format("{}_{}_{}", kernel.graph, numbers[kernel.graph]++, kernel.kind);
    for (char& letter : name) {
      const bool is_plain = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                            (letter >= 'A' && letter <= 'Z');
      if (!is_plain) letter = '_';
    }
    names.push_back(std::move(name));
  }
  return names;
}

int dump(const std::filesystem::path& folder, const std::vector<CorpusKernel>& kernels) {
  std::vector<std::string> looked_in;
  const auto nvrtc = epifuse::jit::Nvrtc::open(&looked_in);
  if (nvrtc == nullptr) {
    throw epifuse::UnavailableError(fmt::format("no NVRTC in\n  {}", fmt::join(looked_in, "\n  ")));
  }
  std::filesystem::create_directories(folder);
  const std::vector<std::string> names = file_names(kernels);
  epifuse::parallel_for(std::ssize(kernels), [&](std::int64_t i, int) {
    const auto index = static_cast<std::size_t>(i);
    epifuse::jit::Binary binary = nvrtc->compile(kernels[index].source);
    for (const auto& leaner : kernels[index].leaner) {
      if (!binary.problems.empty()) binary = nvrtc->compile(leaner);
    }
    std::ofstream file(folder / (names[index] + ".cubin"), std::ios::binary);
    file.write(binary.cubin.data(), std::ssize(binary.cubin));
    if (!binary.problems.empty()) {
      fmt::print("{}, {}: {}\n", kernels[index].graph, kernels[index].kind,
                 fmt::join(binary.problems, "; "));
    }
    if (!file) throw epifuse::ArgumentError(fmt::format("cannot write {}", folder.string()));
  });
  fmt::print("{} cubins in {}\n", kernels.size(), folder.string());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    fmt::print(stderr, "usage: {} FOLDER [FAMILY TARGET]\n", argv[0]);
    return 2;
  }
  try {
    return dump(argv[1], argc == 2 ? epifuse::rtc::corpus_kernels()
                                   : epifuse::rtc::corpus_kernels(argv[2], argv[3]));
  } catch (const epifuse::CompileError& error) {
    fmt::print(stderr, "{}\n{}\n", error.log, error.what());
  } catch (const epifuse::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return 1;
}
