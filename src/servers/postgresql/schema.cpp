// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "servers/postgresql/schema.hpp"

#include <boost/assert.hpp>

namespace conch::postgresql {

std::string_view owners_question() noexcept {
  constexpr std::string_view begin = "\n-- question\n", end = "\n-- end of question\n";
  std::string_view const all = schema();
  auto const from = all.find(begin), to = all.find(end);
  BOOST_ASSERT_MSG(from != std::string_view::npos && to != std::string_view::npos && from < to,
                   "sql/0_owners.sql has lost its marks");
  return all.substr(from + begin.size(), to - from - begin.size());
}

}  // namespace conch::postgresql
