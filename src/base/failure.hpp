// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace conch {

/// What an error of an operation is about. The error itself carries what the server, or the network, answered.
struct failed_task {
  enum class kind : std::uint8_t { waiting, trying, extending, releasing, detaching, holding, asking };

  kind what;
  std::string_view lock = {};         // empty: an error that was explained before names it
  std::string_view server = {};       // as it is shown; empty: not known
  duration after = duration::zero();  // since the task began
  std::string_view holder = {};       // of the lock that is waited for; empty: not known
};

/// The one place that words an error for the caller: what was asked, for which lock, at which server, and what it
/// answered. The code is the same. An error that has all this already, that is not conch's, or that is none, stays as
/// it is; one that lacks only the server gets that.
///
///     timed out after 2 s waiting for lock "stock" (held by billing@pod-7:4711)
///     timed out after 2 s waiting for lock "stock": the server has not answered yet (redis://127.0.0.1:6379)
///     the lock server refused: OOM command not allowed (releasing lock "stock" at redis://127.0.0.1:6379)
error_code explained(error_code why, failed_task const& of);

/// What the server, or the network, answered; empty: nothing is known.
std::string cause_of(error_code why);

/// "300 ms", "2 s", "2.5 s", "10 min"
std::string in_words(duration d);

/// Has that error come from `explained`?
bool is_explained(error_code why);

/// As make_error_code, but `sentence` is all that message() shows.
error_code make_whole_error_code(errc e, std::string_view sentence);

}  // namespace conch
