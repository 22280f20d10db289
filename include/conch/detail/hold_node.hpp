// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/clock.hpp>
#include <conch/detail/agreement.hpp>
#include <conch/detail/api.hpp>
#include <conch/error.hpp>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/system_executor.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

// The functions of the compiled core that the public templates call.
namespace conch {

class hold;

namespace detail {

class hold_node;

CONCH_API void retain(hold_node* n) noexcept;
CONCH_API void let_go(hold_node* n) noexcept;

/// A counted reference to a hold_node, or none.
class node_ref {
 public:
  node_ref() noexcept = default;
  explicit node_ref(hold_node* n) noexcept : node_{n} {
    if (node_ != nullptr) retain(node_);
  }
  node_ref(node_ref const& other) noexcept : node_ref{other.node_} {}
  node_ref(node_ref&& other) noexcept : node_{std::exchange(other.node_, nullptr)} {}
  node_ref& operator=(node_ref other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~node_ref() {
    if (node_ != nullptr) let_go(node_);
  }

  hold_node* get() const noexcept { return node_; }
  hold_node* operator->() const noexcept { return node_; }
  hold_node& operator*() const noexcept { return *node_; }
  explicit operator bool() const noexcept { return node_ != nullptr; }

 private:
  hold_node* node_ = nullptr;
};

/// What an operation waits for that looks on at a hold: its loss, the request of another client, a deadline that is
/// later than a known one, a renewal that is late.
struct hold_event {
  enum class kind : std::uint8_t { loss, request, renewal, danger };

  kind what = kind::loss;
  time_point known = time_point::min();  // of a renewal
};

/// Names the client of a hold that is empty: its operations complete where those of all its other holds do. 0: no
/// client has made it.
using client_number = std::uint64_t;

/// The number of the hold's client; `node` must not be null.
CONCH_API client_number client_of(hold_node const* node) noexcept;

/// The executor of that client; empty: there is no such client any more.
CONCH_API boost::asio::any_io_executor executor_of_client(client_number client) noexcept;

using release_handler = boost::asio::any_completion_handler<void(error_code, bool)>;
using detach_handler = boost::asio::any_completion_handler<void(error_code, std::string)>;
using lost_handler = boost::asio::any_completion_handler<void(error_code)>;
using acquire_handler = boost::asio::any_completion_handler<void(error_code, hold)>;
using close_handler = boost::asio::any_completion_handler<void(error_code)>;

/// The executor of a hold's client. `node` must not be empty.
CONCH_API boost::asio::any_io_executor const& own_executor_of(node_ref const& node) noexcept;

/// The same, or asio::system_executor if there is no node.
CONCH_API boost::asio::any_io_executor executor_of(hold_node const* node) noexcept;

/// The base of each initiation. asio::cancel_after, and others that make a timer for an operation, ask it for the
/// executor. The operation's arguments keep the object that it points to.
template <class Of>
struct initiation_at {
  using executor_type = boost::asio::any_io_executor;
  Of const* asked_of;
  client_number client = 0;  // of an empty hold
  executor_type get_executor() const noexcept {
    if (asked_of == nullptr) {
      if (executor_type of_client = executor_of_client(client)) return of_client;
    }
    return executor_of(asked_of);
  }
};

/// True if the handler runs on `own_executor`: it then needs no hop to another executor. Call it before the handler's
/// type is erased.
template <class Handler>
bool runs_on_client_executor(boost::asio::any_io_executor const& own_executor, Handler const& handler) {
  auto const executor = boost::asio::get_associated_executor(handler, own_executor);
  using type = std::remove_cv_t<decltype(executor)>;
  if constexpr (std::is_same_v<type, boost::asio::any_io_executor>) {
    return executor == own_executor;
  } else {
    type const* const same = own_executor.target<type>();
    return same != nullptr && *same == executor;
  }
}

/// `on_own_executor`: the result of runs_on_client_executor.
CONCH_API void start_release(node_ref node, release_handler handler, bool on_own_executor = false);
CONCH_API void start_lost(node_ref node, lost_handler handler);
CONCH_API void start_requested(node_ref node, lost_handler handler);
CONCH_API void start_renewed(node_ref node, time_point known, lost_handler handler);
CONCH_API void start_endangered(node_ref node, lost_handler handler);
CONCH_API void start_extend(node_ref node, duration lease, release_handler handler);
CONCH_API void start_detach(node_ref node, detach_handler handler);

/// The end of an operation on an empty hold: errc::not_held, posted to `where`.
CONCH_API void end_of_empty(boost::asio::any_io_executor const& where, release_handler handler);
CONCH_API void end_of_empty(boost::asio::any_io_executor const& where, detach_handler handler);
CONCH_API void end_of_empty(boost::asio::any_io_executor const& where, lost_handler handler);

/// The same at the executor of that client. Throws errc::not_held if that client has ended: the handler must not run on
/// a thread of asio::system_executor, which no caller expects.
CONCH_API boost::asio::any_io_executor place_for_handler(client_number client);

/// What a handler is associated with that has no executor.
struct no_executor {
  template <class F>
  void execute(F&&) const {}
  friend bool operator==(no_executor, no_executor) noexcept { return true; }
  friend bool operator!=(no_executor, no_executor) noexcept { return false; }
};

/// The same for a handler whose type is not erased yet. It is posted straight to the handler's own executor, if it has
/// one. Through another one, a thread would let go of the handler's context only after the handler has run, when that
/// context may be gone.
template <class Erased, class Handler>
void end_of_empty(Handler&& handler, client_number client = 0) {
  auto const own = boost::asio::get_associated_executor(handler, no_executor{});
  using type = std::remove_cv_t<decltype(own)>;
  if constexpr (std::is_same_v<type, no_executor>) {
    end_of_empty(place_for_handler(client), Erased{std::forward<Handler>(handler)});
  } else if constexpr (std::is_convertible_v<type, boost::asio::any_io_executor>) {
    end_of_empty(own, Erased{std::forward<Handler>(handler)});
  } else if (own.template target<no_executor>() != nullptr) {  // asio::any_completion_executor
    end_of_empty(place_for_handler(client), Erased{std::forward<Handler>(handler)});
  } else {  // it cannot be posted to
    end_of_empty(boost::asio::system_executor{}, Erased{std::forward<Handler>(handler)});
  }
}

}  // namespace detail
}  // namespace conch
