// What of {fmt} is not compiled where it is used, as {fmt} 9's own library has it. Debian has that
// as a shared one only, which our binaries would need wherever they run.
#include <fmt/format.h>

#ifndef FMT_HEADER_ONLY
#undef FMT_FUNC
#define FMT_FUNC [[gnu::weak]]  // as inline functions are: an application may have its own {fmt}
#include <fmt/format-inl.h>

namespace fmt {
inline namespace v9 {
namespace detail {

template auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template locale_ref::locale_ref(const std::locale& locale);
template auto locale_ref::get<std::locale>() const -> std::locale;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<buffer_context<char>>,
                         locale_ref);

}  // namespace detail
}  // namespace v9
}  // namespace fmt
#endif
