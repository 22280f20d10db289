// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "base/readable.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/operator.hpp"
#include "cli/output.hpp"
#include "cli/show.hpp"

#include <conch/log.hpp>

#include <boost/system/system_error.hpp>

#include <algorithm>
#include <string>

// `conch why`.
namespace conch::cli {

namespace {

/// The hold of the circle that began last has done least. Its holder learns that it is lost.
std::string how_to_break(wait_chain const& c) {
  auto const last = std::max_element(
      c.links.begin() + static_cast<std::ptrdiff_t>(c.circle), c.links.end(),
      [](wait_chain::link const& a, wait_chain::link const& b) { return a.holder.since < b.holder.since; });
  return "To break it: end " + name_of(last->holder) + ", or take its lock away: conch unlock " +
         in_quotes(last->lock) + " --fence " + std::to_string(last->holder.fence) + '\n';
}

}  // namespace

int why(arguments const& given, connection const& servers) {
  if (servers.quorum)
    throw boost::system::system_error{
        make_error_code(errc::not_supported, "`conch why` over several servers: `conch status` shows who holds it")};
  std::string const& name = given.names.front();
  operator_client questions{servers, servers.servers.front(),
                            given.verbose ? log_to_stderr(log_level::debug) : nullptr};
  wait_chain const chain = questions.why(name);
  if (given.json) {
    print(one_line(as_json(name, chain)));
  } else {
    print((chain.links.empty() ? printable(name) + ": " : "") + chain.text() + '\n' +
          (chain.is_deadlock() ? how_to_break(chain) : ""));
  }
  return exit_code::done;
}

}  // namespace conch::cli
