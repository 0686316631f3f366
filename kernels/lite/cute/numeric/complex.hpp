// Stand-in for cute/numeric/complex.hpp: what cute::fma of cute/arch/mma.hpp asks of a complex.
#pragma once

#include <cute/numeric/numeric_types.hpp>

namespace cute {

template <class T>
struct complex {
  T re, im;
  __device__ complex(T re_ = 0, T im_ = 0) : re(re_), im(im_) {}
  __device__ T real() const { return re; }
  __device__ T imag() const { return im; }
  __device__ T& real() { return re; }
  __device__ T& imag() { return im; }
};

template <class T>
__device__ complex<T> operator+(complex<T> a, complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}

template <class T>
__device__ complex<T> operator*(complex<T> a, complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

}  // namespace cute
