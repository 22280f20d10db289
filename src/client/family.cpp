// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#include "client/checked.hpp"
#include "client/core.hpp"

#include <conch/semaphore.hpp>
#include <conch/shared_mutex.hpp>
#include <conch/striped_mutex.hpp>

#include <boost/system/system_error.hpp>

#include <string>
#include <utility>

// The locks with several owners: checks, and calls of the core.
namespace conch {

namespace {

constexpr std::uint32_t most_segments = 1'000;

using kind = lock_status::kind_of_lock;

error_code wrong_count(std::uint32_t n, std::uint32_t most, std::string const& what) {
  if (n >= 1 && n <= most) return {};
  return make_error_code(errc::invalid_config,
                         what + " must be 1 to " + std::to_string(most) + ", got " + std::to_string(n));
}

std::uint32_t unless_wrong(std::uint32_t n, error_code unless) {
  if (unless) throw boost::system::system_error{unless};
  return n;
}

}  // namespace

semaphore::semaphore(client& through, std::string name, std::uint32_t permits, lock_options options)
    : named_lock{detail::checked_lock(through.core(), std::move(name), options, kind::semaphore, permits)},
      permits_{unless_wrong(permits, detail::checked_permits(permits))} {}

shared_mutex::shared_mutex(client& through, std::string name, lock_options options)
    : named_lock{
          detail::checked_lock(through.core(), std::move(name), options, kind::shared_mutex, detail::most_permits)} {}

striped_mutex::striped_mutex(client& through, std::string name, std::uint32_t segments, lock_options options)
    : named_lock{detail::checked_lock(through.core(), std::move(name), options, kind::striped_mutex, segments)},
      segments_{unless_wrong(segments, wrong_count(segments, most_segments, "the segments of a striped_mutex"))} {}

/// If all segments are excluded the weight is 0, which is refused: such an acquire could never be granted.
detail::permit_request striped_mutex::request(std::vector<std::uint32_t> const& but) const {
  std::vector<bool> unwanted(segments_, false);
  std::uint32_t left = segments_;
  std::string excluded_segments;
  for (std::uint32_t const segment : but) {
    if (segment == 0 || segment > segments_ || unwanted[segment - 1]) continue;
    unwanted[segment - 1] = true;
    --left;
    excluded_segments += ',' + std::to_string(segment);
  }
  return {'g', segments_, left == 0 ? 0u : 1u, excluded_segments.empty() ? "-" : excluded_segments + ','};
}

namespace detail {

error_code checked_permits(std::uint32_t permits) {
  return wrong_count(permits, most_permits, "the permits of a semaphore");
}

void start_acquire_permit(settings_ptr lock, permit_request permit, acquire_options const& options, bool once,
                          acquire_handler handler, bool on_own_executor) {
  lock->core->acquire(lock, options, once, std::move(handler), on_own_executor,
                      {.kind = static_cast<engine::permit_kind>(permit.kind),
                       .limit = permit.limit,
                       .weight = permit.weight,
                       .detail = std::move(permit.excluded_segments),
                       .all_free = permit.all_free});
}

}  // namespace detail

}  // namespace conch
