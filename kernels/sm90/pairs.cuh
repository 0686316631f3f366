// Two products whose columns come by turns: their sums, from where wgmma leaves them to where those
// of two products side by side would be.
#pragma once

namespace epifuse::sm90 {

// `x`: a lane's sums of 32 columns, 16 of each product by turns: of each 8 columns two of its row,
// then two of the row 8 below it. `pairs`: the sums of 16 columns of each product, in the same
// order.
//
// Of 8 columns, lane l of four has both products at column l of 4; it is to have them at columns
// 2 l and 2 l + 1 of 8. So of 16, lanes 0 and 1 take what all four have of the first 8, lanes 2 and
// 3 of the second: two exchanges, in each of which every lane gives one of the two and takes one.
__device__ __forceinline__ void part_pairs(const float* x, float (&pairs)[2][8], int lane) {
  const int l = lane & 3;
  const int even = (2 * l) & 3, odd = even + 1;  // the lanes whose sums it takes
  // In the first exchange lanes 0 and 3 give of the first 8 columns, 1 and 2 of the second.
  const bool gives_second = l == 1 || l == 2;
  // Lanes 0 and 3 first take from an even lane, 1 and 2 from an odd one.
  const bool even_first = l == 0 || l == 3;
  const int first_from = l == 0 ? 0 : l == 1 ? 3 : l == 2 ? 1 : 2;
  const int then_from = first_from == even ? odd : even;
#pragma unroll
  for (int block = 0; block < 2; ++block) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int product = 0; product < 2; ++product) {
        const int at = block * 8 + row * 2 + product;
        const float a = x[at], b = x[at + 4];
        const float first = __shfl_sync(0xffffffffu, gives_second ? b : a, first_from, 4);
        const float then = __shfl_sync(0xffffffffu, gives_second ? a : b, then_from, 4);
        pairs[product][block * 4 + row * 2] = even_first ? first : then;
        pairs[product][block * 4 + row * 2 + 1] = even_first ? then : first;
      }
    }
  }
}

}  // namespace epifuse::sm90
