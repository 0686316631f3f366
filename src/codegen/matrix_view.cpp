#include "codegen/matrix_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strided.h"

namespace epifuse::codegen {
namespace {

constexpr std::int64_t kTmaAlignment = 16;

const void* first_element(const BoundTensor& tensor, DType dtype) {
  return static_cast<const char*>(tensor.data) +
         tensor.layout.offset * static_cast<std::int64_t>(size_bytes(dtype));
}

plan::WhyNot uneven_rows(std::string_view name) {
  return {"uneven_rows", fmt::format("the rows of {} are not evenly spaced in memory.", name)};
}

// A tensor of a batched product: its matrix, and its strides along the batch dims.
struct BatchedView {
  MatrixView matrix;
  std::vector<std::int64_t> batch_strides;
};

BatchedView batched_view(const BoundTensor& tensor, DType dtype, std::size_t num_batch_dims) {
  const ir::Layout& layout = tensor.layout;
  const std::size_t rank = layout.shape.size();
  const auto size = [&](std::size_t from_end) {
    return from_end < rank ? layout.shape[rank - 1 - from_end] : std::int64_t{1};
  };
  const auto stride = [&](std::size_t from_end) {
    return size(from_end) > 1 ? layout.strides[rank - 1 - from_end] : std::int64_t{0};
  };
  BatchedView view;
  view.matrix.data = first_element(tensor, dtype);
  view.matrix.cols = size(0);
  view.matrix.col_stride = size(0) > 1 ? stride(0) : 1;
  view.matrix.rows = size(1);
  view.matrix.row_stride = stride(1);
  for (std::size_t d = num_batch_dims; d-- > 0;) view.batch_strides.push_back(stride(2 + d));
  return view;
}

// Tensors of a product in the order of GemmViews.
struct GemmTensors {
  std::vector<BoundTensor> tensors;
  std::vector<DType> dtypes;
  std::vector<std::string_view> names;
};

GemmTensors tensors_of(const plan::Plan& plan, const plan::FusedGemm& step, const Bound& bound) {
  GemmTensors out;
  const auto add = [&](ir::ValueId value, DType dtype, const BoundTensor& tensor) {
    out.tensors.push_back(tensor);
    out.dtypes.push_back(dtype);
    out.names.push_back(plan.graph[value].name);
  };
  const plan::GemmDesc& gemm = step.gemm;
  add(gemm.a.value, gemm.a.dtype, bound[gemm.a.value]);
  add(gemm.b.value, gemm.b.dtype, bound[gemm.b.value]);
  if (gemm.gating == plan::Gating::separate) {
    add(gemm.second_b.value, gemm.second_b.dtype, bound[gemm.second_b.value]);
  }
  for (const plan::Load& load : step.epilogue.loads) add(load.value, load.dtype, bound[load.value]);
  for (const plan::Store& store : step.epilogue.stores) {
    add(store.value, stored_dtype(store), stored(bound, store));
  }
  for (const ir::ValueId scales : gemm.scales()) add(scales, DType::f32, bound[scales]);
  return out;
}

// The parts of b that the two products of a gated one multiply.
void share_out(const plan::GemmDesc& gemm, GemmViews& views) {
  if (gemm.halves() == ir::Halves::none) return;
  const auto [offset, stride] =
      ir::piece(gemm.halves(), true, views.b.rows / 2, views.b.row_stride);
  views.b.rows /= 2;
  views.b.row_stride = stride;
  views.second_b = views.b;
  views.second_b.data = static_cast<const char*>(views.b.data) +
                        offset * static_cast<std::int64_t>(size_bytes(gemm.b.dtype));
}

GemmViews arrange(const plan::FusedGemm& step, const std::vector<MatrixView>& views) {
  GemmViews out;
  // In memory a is [m, k] and b is [k, n] unless transposed; the kernel reads both with K last.
  out.a = step.gemm.a.transposed ? transposed(views[0]) : views[0];
  out.b = step.gemm.b.transposed ? views[1] : transposed(views[1]);
  auto loads = views.begin() + 2;
  if (step.gemm.gating == plan::Gating::separate) {
    out.second_b = step.gemm.second_b.transposed ? *loads : transposed(*loads);
    ++loads;
  }
  share_out(step.gemm, out);
  const auto stores = loads + static_cast<std::ptrdiff_t>(step.epilogue.loads.size());
  const auto scales = stores + static_cast<std::ptrdiff_t>(step.epilogue.stores.size());
  out.loads.assign(loads, stores);
  out.stores.assign(stores, scales);
  out.scales.assign(scales, views.end());
  return out;
}

// Of b [groups, rows, cols].
MatrixView matrix_of_group(const BoundTensor& tensor, DType dtype) {
  const BatchedView view = batched_view(tensor, dtype, 1);
  MatrixView matrix = view.matrix;
  matrix.inner_stride = view.batch_strides.front();
  return matrix;
}

// From one row of the dim that is looked up to the next, also where there is one row only.
std::int64_t stride_of_rows(const plan::Plan& plan, ir::ValueId value, const Bound& bound) {
  const auto lookup = ir::lookup(plan.graph, value);
  EPIFUSE_CHECK(lookup.has_value(), "rows that are looked up");
  return bound[value].layout.strides[lookup->dim];
}

// Rows that belong to groups: of a table of groups, and of b, a row or a matrix for each.
GemmViews grouped_views(const plan::Plan& plan, const plan::FusedGemm& step, const Bound& bound,
                        GemmViews views) {
  const plan::GemmDesc& gemm = step.gemm;
  views.batch_inner = bound[gemm.b.value].layout.shape.front();
  if (gemm.a.lookup >= 0) views.a.row_stride = stride_of_rows(plan, gemm.a.value, bound);
  for (std::size_t i = 0; i < step.epilogue.loads.size(); ++i) {
    const plan::Load& load = step.epilogue.loads[i];
    if (load.lookup < 0) continue;
    MatrixView& view = views.loads[i];
    view.row_stride = stride_of_rows(plan, load.value, bound);
    if (!load.by_group) continue;
    view.inner_stride = std::exchange(view.row_stride, 0);
    view.rows = 1;
  }
  return views;
}

std::optional<GemmViews> single_views(const plan::FusedGemm& step, const GemmTensors& tensors,
                                      plan::WhyNot* why) {
  std::vector<MatrixView> views;
  for (std::size_t i = 0; i < tensors.tensors.size(); ++i) {
    auto view = as_matrix(tensors.tensors[i], tensors.dtypes[i]);
    const std::size_t scales_of_b = step.gemm.is_scaled() ? step.gemm.scales().size() - 1 : 0;
    const bool is_b =
        (i > 0 && i < step.gemm.operands().size()) || i + scales_of_b >= tensors.tensors.size();
    if (is_b && step.gemm.is_grouped()) {
      view = matrix_of_group(tensors.tensors[i], tensors.dtypes[i]);
    }
    if (!view) {
      *why = uneven_rows(tensors.names[i]);
      return std::nullopt;
    }
    views.push_back(*view);
  }
  return arrange(step, views);
}

}  // namespace

DType stored_dtype(const plan::Store& store) {
  return store.part == plan::Part::pairs ? DType::f32 : store.dtype;
}

BoundTensor stored(const Bound& bound, const plan::Store& store) {
  BoundTensor tensor = bound[store.value];
  if (store.part == plan::Part::whole) return tensor;
  ir::Layout& layout = tensor.layout;
  std::int64_t& stride = layout.strides.back();
  layout.shape.back() /= 2;
  if (store.part == plan::Part::pairs) {
    layout.offset /= 2;
    for (std::size_t d = 0; d + 1 < layout.strides.size(); ++d) layout.strides[d] /= 2;
    return tensor;
  }
  const auto piece =
      ir::piece(plan::halves(store.part), plan::is_second(store.part), layout.shape.back(), stride);
  layout.offset += piece.offset;
  stride = piece.stride;
  return tensor;
}

std::optional<MatrixView> as_matrix(const BoundTensor& tensor, DType dtype) {
  const ir::Layout& layout = tensor.layout;
  MatrixView view;
  view.data = first_element(tensor, dtype);
  if (layout.shape.empty()) return view;
  view.cols = layout.shape.back();
  view.col_stride = view.cols == 1 ? 1 : layout.strides.back();
  bool found = false;
  for (std::size_t i = layout.shape.size() - 1; i-- > 0;) {
    if (layout.shape[i] != 1) {
      if (found && layout.strides[i] != view.row_stride * view.rows) return std::nullopt;
      if (!found) view.row_stride = layout.strides[i];
      found = true;
    }
    view.rows *= layout.shape[i];
  }
  return view;
}

MatrixView transposed(MatrixView view) {
  std::swap(view.rows, view.cols);
  std::swap(view.row_stride, view.col_stride);
  return view;
}

std::optional<plan::WhyNot> why_not_tma(const MatrixView& view, DType dtype,
                                        std::string_view name) {
  const auto bytes = static_cast<std::int64_t>(size_bytes(dtype));
  if (view.col_stride != 1 && view.cols > 1) {
    return plan::WhyNot{"strided_columns",
                        fmt::format("neighbouring columns of {} are {} elements apart, and TMA "
                                    "reads contiguous rows.",
                                    name, view.col_stride)};
  }
  if (reinterpret_cast<std::uintptr_t>(view.data) % kTmaAlignment != 0) {
    return plan::WhyNot{"unaligned_base",
                        fmt::format("{} does not start at a multiple of {} bytes, which TMA needs.",
                                    name, kTmaAlignment)};
  }
  if (view.rows > 1 && (view.row_stride <= 0 || view.row_stride * bytes % kTmaAlignment != 0)) {
    return plan::WhyNot{"unaligned_rows",
                        fmt::format("rows of {} are {} bytes apart, and TMA needs a positive "
                                    "multiple of {}.",
                                    name, view.row_stride * bytes, kTmaAlignment)};
  }
  for (const std::int64_t stride : {view.inner_stride, view.outer_stride}) {
    if (stride < 0 || stride * bytes % kTmaAlignment != 0) {
      return plan::WhyNot{"unaligned_batch",
                          fmt::format("matrices of {} are {} bytes apart, and TMA needs a positive "
                                      "multiple of {}.",
                                      name, stride * bytes, kTmaAlignment)};
    }
  }
  return std::nullopt;
}

std::array<RowClass, abi::kRowClasses> row_classes(const MatrixView& view, DType dtype) {
  const auto bytes = static_cast<std::int64_t>(size_bytes(dtype));
  std::array<RowClass, abi::kRowClasses> classes;
  for (int j = 0; j < abi::kRowClasses; ++j) {
    RowClass& out = classes[static_cast<std::size_t>(j)];
    const bool has_rows = j < view.rows;
    const auto row =
        reinterpret_cast<std::intptr_t>(view.data) + (has_rows ? j * view.row_stride * bytes : 0);
    const std::intptr_t boundary = row / kTmaAlignment * kTmaAlignment;
    out.view = view;
    out.view.data = reinterpret_cast<const void*>(boundary);
    out.view.row_stride = view.row_stride * abi::kRowClasses;
    const std::int64_t outside = std::max<std::int64_t>(kShiftBytes / bytes, 1);
    out.shift = static_cast<int>(has_rows ? (row - boundary) / bytes : outside);
    out.view.rows = has_rows ? (view.rows - j + abi::kRowClasses - 1) / abi::kRowClasses : 1;
    out.view.cols = has_rows ? view.cols + out.shift : 1;
  }
  return classes;
}

std::optional<plan::WhyNot> why_not_row_classes(const MatrixView& view, DType dtype,
                                                std::string_view name) {
  const std::size_t bytes = size_bytes(dtype);
  if (reinterpret_cast<std::uintptr_t>(view.data) % bytes != 0) {
    return plan::WhyNot{"unaligned_base", fmt::format("{} does not start at a multiple of its "
                                                      "elements' {} bytes.",
                                                      name, bytes)};
  }
  const auto classes = row_classes(view, dtype);
  for (const RowClass& rows : classes) {
    if (static_cast<std::size_t>(rows.shift) * bytes % kShiftBytes == 0) continue;
    return plan::WhyNot{"odd_bytes", fmt::format("rows of {} start at odd bytes, and what moves "
                                                 "them to 16-byte boundaries takes {} at a time.",
                                                 name, kShiftBytes)};
  }
  return why_not_tma(classes.front().view, dtype, name);
}

std::optional<GemmViews> gemm_views(const plan::Plan& plan, const plan::FusedGemm& step,
                                    const Bound& bound, plan::WhyNot* why) {
  const GemmTensors tensors = tensors_of(plan, step, bound);
  if (step.gemm.batch.empty()) {
    auto views = single_views(step, tensors, why);
    if (!views || !step.gemm.is_grouped()) return views;
    return grouped_views(plan, step, bound, *std::move(views));
  }
  std::vector<std::int64_t> sizes = ir::eval(step.gemm.batch, bound.sizes);
  std::vector<BatchedView> batched;
  for (std::size_t i = 0; i < tensors.tensors.size(); ++i) {
    batched.push_back(batched_view(tensors.tensors[i], tensors.dtypes[i], sizes.size()));
  }
  std::vector<std::vector<std::int64_t>*> strides;
  for (BatchedView& view : batched) strides.push_back(&view.batch_strides);
  join_dims(sizes, strides);
  if (sizes.size() > 2) {
    *why = {"batch_dims", "the batch dims of its tensors cannot be walked as two."};
    return std::nullopt;
  }
  std::vector<MatrixView> views;
  for (BatchedView& view : batched) {
    if (!sizes.empty()) view.matrix.inner_stride = view.batch_strides.back();
    if (sizes.size() > 1) view.matrix.outer_stride = view.batch_strides.front();
    views.push_back(view.matrix);
  }
  GemmViews out = arrange(step, views);
  if (!sizes.empty()) out.batch_inner = sizes.back();
  if (sizes.size() > 1) out.batch_outer = sizes.front();
  return out;
}

TensorMapRequest map_request(const MatrixView& view, DType dtype, const GemmViews& views) {
  TensorMapRequest request;
  request.data = view.data;
  request.dtype = dtype;
  request.rows = view.rows;
  request.cols = view.cols;
  // A single row has no stride; any legal one will do.
  const std::int64_t legal = (view.cols + kTmaAlignment - 1) / kTmaAlignment * kTmaAlignment;
  request.row_stride = view.rows > 1 ? view.row_stride : legal;
  request.inner = view.inner_stride != 0 ? views.batch_inner : 1;
  request.outer = view.outer_stride != 0 ? views.batch_outer : 1;
  request.inner_stride = view.inner_stride != 0 ? view.inner_stride : legal;
  request.outer_stride = view.outer_stride != 0 ? view.outer_stride : legal;
  return request;
}

}  // namespace epifuse::codegen
