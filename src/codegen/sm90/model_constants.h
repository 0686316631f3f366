// The constants of the Hopper GEMM's model of time (dense_model.cpp), by device.
#pragma once

#include <initializer_list>
#include <vector>

#include "codegen/family.h"
#include "targets/device_profile.h"

namespace epifuse::codegen::sm90 {

// In clocks where a name says no other unit.
struct ModelConstants {
  double clocks_per_us;
  double multiplies_per_clock;
  double eight_bit_slows;            // the same of elements of 8 bits, two of which count as one
  double feed_clocks, feed_overlap;  // a row of 128 bytes
  double step_clocks, cooperative_step_clocks;
  double least_step_clocks;
  double row_clocks;  // of moving a row or column of a step
  // Of a row of A and of a column of B where L2 delivers to all SMs, and how sharply that bounds.
  double l2_row_clocks, l2_column_clocks, l2_overlap;
  double l2_idle;         // the part of it that an idle SM leaves to the others
  double latency_clocks;  // from asking for a stage to having it
  double outside_clocks;  // of a row of B that is not there, where all CTAs ask for such rows
  // Of a row that is looked up: beside the products, and where nothing else takes longer.
  double gather_clocks, gather_floor;
  // Of rows that threads move, off 16-byte boundaries: a step, of both operands beside that, a row.
  double mover_clocks, second_mover_clocks, mover_row_clocks;
  double tile_clocks, chunk_clocks, operation_clocks;
  double load_clocks, store_clocks;  // of a full operand, a further result
  double ring_load_clocks;           // of a full operand through the stages
  // Of what threads load and store themselves: the first in a tile, and each instruction of one.
  double lane_wait_clocks, lane_load_clocks, lane_store_clocks;
  double narrow_clocks;                           // of narrow tiles among wider ones
  double narrow_load_clocks;                      // of a full operand beside them
  double cluster_clocks;                          // a tile
  double cluster_fill_clocks;                     // once
  double exchange_clocks, exchange_chunk_clocks;  // of partial sums: once, a chunk of another CTA
  double split_slows;                             // the steps, which read K in two places
  double single_clocks;                           // of partial sums where tiles are small,
  double single_share_clocks;                     // 64 columns of another CTA,
  double single_restart_clocks;                   // and a wave of clusters after another
  // Gated, with b along N: beside tiles of 128 x 128.
  double tall_gate_slows, cooperative_gate_slows;
  double wide_by_turns_slows;    // 192 columns, gates by turns
  double short_of_stages_slows;  // gates with few stages
  double tall_cluster_slows;     // 256 rows, no whole chunks of columns: in the end, by so much
  double fill_clocks;
  double launch_us, bytes_per_us, overlap;
  // Of L2, written to memory as others take their place: at most. Where there are several rows of
  // tiles, the part of what they read that counts twice, up to what L2 holds.
  double dirty_bytes, dirty_part;
  double read_again;  // of B, for each further row of tiles of 64 rows where they are apart
  double cut_lines;   // of a line of 128 bytes of full operands and results that tiles cut
  // Cooperative CTAs out of step: the part that they read again of what L2 does not hold of a wave,
  // in the end, and the waves until then.
  double l2_bytes, drift, drift_waves;
  double reduction_clocks, finish_us;  // of a reduction in a chunk, of the tail behind it
  // Of kernels for few rows, in microseconds: once, a wave of CTAs, further CTAs of a cluster, a
  // CTA of each SM, a full operand, a step of K that waits for memory, and a vector of b in it,
  // along K or N.
  double few_rows_launch_us, few_rows_wave_us, few_rows_cluster_us, few_rows_cta_us;
  double few_rows_load_us, few_rows_step_us, few_rows_vector_us, few_rows_n_vector_us;
  double few_rows_bytes_per_us, few_rows_l2_bytes_per_us;  // of memory, of L2
  double few_rows_dirty_bytes;                             // as dirty_bytes
};

// The row of the device that the profile's measurements were taken on. Without one, constants of
// the kernels with the rates that the driver gives.
// Those that the profile itself has go before both.
ModelConstants constants_of(const targets::DeviceProfile& device);

// The same by name, each once.
std::vector<NamedConstant> named_constants(const targets::DeviceProfile& device);

// Of what goes on at once: the longest, and the others the less the larger `sharpness` is.
double overlapped(std::initializer_list<double> all, double sharpness);

}  // namespace epifuse::codegen::sm90
