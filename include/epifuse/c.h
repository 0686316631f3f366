/* The C interface: what other languages build on. Graphs are `.epi` text (docs/epi.md), answers
   JSON. Functions that return a status give EPIFUSE_OK, or say in epifuse_last_error() what was
   expected and what came. All may be called from any thread. */
#ifndef EPIFUSE_C_H
#define EPIFUSE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  EPIFUSE_OK = 0,
  EPIFUSE_BAD_INPUT = 2,   /* a graph, options or tensors that do not fit */
  EPIFUSE_UNAVAILABLE = 3, /* this machine lacks a GPU, a driver or a library */
  EPIFUSE_FAILED = 4,      /* the run-time compiler or the device */
  EPIFUSE_BUG = 70         /* a bug of epifuse */
} EpifuseStatus;

/* Element types, as in epifuse/dtype.h. */
typedef enum {
  EPIFUSE_F32 = 0,
  EPIFUSE_BF16 = 1,
  EPIFUSE_F16 = 2,
  EPIFUSE_E4M3 = 3,
  EPIFUSE_E5M2 = 4,
  EPIFUSE_BOOL = 5,
  EPIFUSE_I32 = 6,
  EPIFUSE_I64 = 7,
  EPIFUSE_I8 = 8
} EpifuseDType;

#define EPIFUSE_MAX_RANK 6

/* Memory seen as a tensor. Nothing is owned. At most 2^40 elements (sizes of 0 count as 1) lie in
   it, and as many from its first in memory to its last. */
typedef struct {
  void* data;             /* may be null where no element is */
  int32_t dtype;          /* an EpifuseDType */
  int32_t rank;           /* 0 to EPIFUSE_MAX_RANK */
  const int64_t* sizes;   /* outermost first; may be null where rank is 0, as may strides */
  const int64_t* strides; /* in elements, one for each size */
} EpifuseTensor;

/* A graph that runs on tensors of any strides, 0 and negative ones too, but for
   - integers that rows and groups go by: their strides have to express what the graph reshapes
     them to;
   - an output with strides by which two of its elements are one: refused;
   - an output that shares memory with an input or another output: refused. It may be an input
     itself (the same address, sizes and strides) where the step that writes it reads that input
     element by element, as a residual, and nothing reads it later. Columns of one buffer that lie
     between each other share none. */
typedef struct EpifuseKernel EpifuseKernel;

/* "0.1.0" */
const char* epifuse_version(void);

/* Of the last call on this thread that failed; "" when none did. Valid until the thread's next
   call. Always UTF-8 of at most EPIFUSE_MAX_ERROR bytes: longer ones are cut, and other bytes are
   written as \xNN. */
#define EPIFUSE_MAX_ERROR 8191
const char* epifuse_last_error(void);

/* Frees text that a function below handed out. */
void epifuse_free(char* text);

/* What of a graph becomes kernels, for hosts that run the rest themselves. `options` is a JSON
   object, all keys optional (null or "" for none):
     "target"         "auto" | "cpu" | "cuda", or the name of a row of targets.def
     "numerics"       "fast" | "exact" | "approx"
     "tf32"           false
     "tune"           "off" | "compile" | "first-use" | "full": epifuse::Tune; EPIFUSE_TUNE without
     "family"         the kernel family that takes all products it can on a GPU
     "whole"          [["addmm_product", "addmm"]]: values that one kernel computes together or not
     "after"          {"leaf": ["value"]}: inputs that the framework makes of values of the graph
     "in_memory"      ["value"]: values that the framework needs in memory in any case
     "unstored"       ["leaf"]: inputs in memory only where a kernel reads them
     "only_faster"    false; leaves out what PyTorch is known to run faster on CPUs
     "sums_both_ways" false; the framework sums columns while it sums rows
     "likely_sizes"   {"M": 128}: what symbols of the graph are likely to be
   The answer is {"kernels": [..], "left_out": [..]}, kernels in an order in which they can run.
   A kernel:
     "name"           "matmul_bias_gelu_erf", an identifier
     "epilogue"       "bias+gelu_erf": its ops, in order
     "graph"          `.epi` text, without any of the framework's names
     "inputs"         [{"value": "x", "shape": null}], in order of the text's; a shape (texts of
                      sizes) where the kernel reshapes it
     "outputs"        the same for results; "order": [1, 0] where the kernel has dims in another one
     "values"         ["h", "t"]: of the graph, computed inside
     "apart"          of several products: kernels of those that have work of their own, for where
                      this one is not used; [] for others
   What was left out:
     {"value": "u", "code": "no_matmul", "why": "one sentence."} */
EpifuseStatus epifuse_fusions(const char* graph, const char* options, char** json);

/* ["graph", "return", ..]: the words of `.epi` that no value, size or graph may be called
   (docs/epi.md, Names). */
EpifuseStatus epifuse_reserved_words(char** json);

/* {"name": .., "inputs": [{"name": .., "dtype": "bf16", "shape": ["M", "768"]}],
    "outputs": [..]}; sizes are polynomials over symbols in `+ - *`. */
EpifuseStatus epifuse_describe(const char* graph, char** json);

/* What Program::explain_json says of the graph; of the options above "target", "numerics",
   "tf32", "tune" and "family". */
EpifuseStatus epifuse_explain(const char* graph, const char* options, char** json);

/* The kernel of a graph text whose inputs are tensors: a number that is passed at run time is an
   `f32[]` here, no `scalar`. Options as for epifuse_explain. The same texts give the same kernel
   for the life of the process: nothing is to be freed, and asking again costs a look-up. Texts need
   no terminating 0. */
EpifuseStatus epifuse_kernel(const char* graph, size_t graph_length, const char* options,
                             size_t options_length, const EpifuseKernel** kernel);

/* -1 for a null kernel, with an error in epifuse_last_error, as epifuse_is_cuda. */
int epifuse_num_inputs(const EpifuseKernel* kernel);
int epifuse_num_outputs(const EpifuseKernel* kernel);
/* 1 when its tensors are memory of a GPU, 0 when they are the host's: what the target came to. */
int epifuse_is_cuda(const EpifuseKernel* kernel);

/* Dtype, rank and sizes of output `index` for these inputs (all of them, in order; only rank, dtype
   and sizes are read). No place may be null. */
EpifuseStatus epifuse_output(const EpifuseKernel* kernel, const EpifuseTensor* inputs, int index,
                             EpifuseDType* dtype, int32_t* rank, int64_t sizes[EPIFUSE_MAX_RANK]);

/* Runs on all inputs and outputs, in the order of the text. On CUDA the work is queued on `stream`
   (a cudaStream_t, of the current device) and the call returns. For strides that have not come
   before a program is compiled. What sizes, strides and addresses modulo 256 decide is done at
   their first call and remembered: tensors that move cost no more than those that stay. */
EpifuseStatus epifuse_run(const EpifuseKernel* kernel, const EpifuseTensor* inputs,
                          const EpifuseTensor* outputs, void* stream);

/* The same for tensors as numbers, for callers who know how they lie when they generate code: of
   every input and then of every output its address, its sizes and its strides. Dtypes and ranks are
   those of the text. `count` has to be that of all these numbers. */
EpifuseStatus epifuse_run_numbers(const EpifuseKernel* kernel, const int64_t* numbers, size_t count,
                                  void* stream);

/* A place in the caller's code that runs a kernel again and again, mostly on tensors of the same
   sizes, strides and alignment: these are then only compared with those of the last call there. To
   be freed by epifuse_free_call_site, after its last call has returned. */
typedef struct EpifuseCallSite EpifuseCallSite;
EpifuseStatus epifuse_call_site(const EpifuseKernel* kernel, EpifuseCallSite** site);
void epifuse_free_call_site(EpifuseCallSite* site);
/* epifuse_run_numbers at a call site, also from several threads at once. */
EpifuseStatus epifuse_run_at(EpifuseCallSite* site, const int64_t* numbers, size_t count,
                             void* stream);

/* Compiles what a run on such inputs needs, and runs nothing: their data is not read. For threads
   beside the one that will run. */
EpifuseStatus epifuse_prepare(const EpifuseKernel* kernel, const EpifuseTensor* inputs);

/* Does the same, and says what a run on such inputs goes by:
     {"how": ["FAMILY, ping-pong 128x192, 4 stages"],   of each step; none on CPUs
      "grounds": ["33.1 us measured, .."],              why it is that one
      "left": {"code": "framework_is_faster", "why": "one sentence."}}   where a framework that runs
   the rest is faster without this kernel, as measured or because the vendor's product and a pass
   for the rest would run; null otherwise. "framework_is_faster_padded": one that pads the operands
   of the product is. A measured answer is kept on disk with the choice. */
EpifuseStatus epifuse_choice(const EpifuseKernel* kernel, const EpifuseTensor* inputs, char** json);

/* Programs that kernels of this process compiled, GPU binaries among them that came from no cache,
   and plans of kernels, which are made once whether epifuse_fusions or a run asks first: for tests
   that count. */
typedef struct {
  int64_t programs, binaries, plans;
} EpifuseCounts;
EpifuseCounts epifuse_counts(void);

/* What the kernels of this process did since it started, in no order:
     {"kernels": [{"name": "matmul_bias_gelu_erf",  "kernel" before its first call
                   "graph": "its text", "options": "its options",
                   "calls": 12,                     replays of CUDA graphs are none
                   "programs": 1, "binaries": 0,    as EpifuseCounts has them
                   "compile_seconds": 0.4}]}        planning, and the compiler's over its threads */
EpifuseStatus epifuse_stats(char** json);

#ifdef __cplusplus
}
#endif
#endif
