// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <string_view>

namespace conch::postgresql {

/// The schema script: sql/*.sql one behind the other, embedded by the build (cmake/embed_sql.cmake).
std::string_view schema() noexcept;

/// What conch.version() of that script answers. A server with a greater one is accepted: its functions take what those of before took.
inline constexpr int schema_version = 1;

}  // namespace conch::postgresql
