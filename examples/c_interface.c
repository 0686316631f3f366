/* The C interface: a graph as text becomes a kernel, which runs on memory of the caller. On a GPU
   ("target": "cuda") the tensors are memory of the device, and the last argument of epifuse_run is
   a cudaStream_t. */
#include <epifuse/c.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kRows = 8, kInner = 256, kColumns = 64 };

static const char* const kGraph =
    "graph ffn(x: f32[M, 256], w: f32[64, 256], b: f32[64]) {\n"
    "  h = matmul x, w^T\n"
    "  t = add h, b\n"
    "  y = gelu_erf t\n"
    "  return y\n"
    "}\n";
static const char* const kOptions = "{\"target\": \"cpu\", \"numerics\": \"fast\"}";

static float x[kRows * kInner], w[kColumns * kInner], b[kColumns], y[kRows * kColumns];

int main(void) {
  const int64_t x_sizes[] = {kRows, kInner}, w_sizes[] = {kColumns, kInner};
  const int64_t b_sizes[] = {kColumns}, y_sizes[] = {kRows, kColumns};
  const int64_t inner[] = {kInner, 1}, columns[] = {kColumns, 1}, one[] = {1};
  const EpifuseTensor inputs[] = {{x, EPIFUSE_F32, 2, x_sizes, inner},
                                  {w, EPIFUSE_F32, 2, w_sizes, inner},
                                  {b, EPIFUSE_F32, 1, b_sizes, one}};
  const EpifuseTensor outputs[] = {{y, EPIFUSE_F32, 2, y_sizes, columns}};
  const EpifuseKernel* kernel = NULL;
  int i;
  for (i = 0; i < kRows * kInner; ++i) x[i] = 1.0f;
  for (i = 0; i < kColumns * kInner; ++i) w[i] = 0.01f;
  for (i = 0; i < kColumns; ++i) b[i] = 0.5f;

  if (epifuse_kernel(kGraph, strlen(kGraph), kOptions, strlen(kOptions), &kernel) != EPIFUSE_OK ||
      epifuse_run(kernel, inputs, outputs, NULL) != EPIFUSE_OK) {
    fprintf(stderr, "%s\n", epifuse_last_error());
    return 1;
  }
  const double t = kInner * 0.01 + 0.5, expected = t / 2 * (1 + erf(t / sqrt(2)));
  printf("%.4f, expected %.4f\n", (double)y[0], expected);
  return fabs(y[0] - expected) < 1e-4 ? 0 : 1;
}
