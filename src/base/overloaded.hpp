// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

namespace conch {

/// Several functions as one, for std::visit.
template <class... F>
struct overloaded : F... {
  using F::operator()...;
};

}  // namespace conch
