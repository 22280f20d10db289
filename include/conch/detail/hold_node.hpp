// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <conch/error.hpp>

#include <boost/asio/any_completion_handler.hpp>

#include <utility>

// What the public templates need of the compiled core.
namespace conch {

class hold;

namespace detail {

class hold_node;

void retain(hold_node* n) noexcept;
void let_go(hold_node* n) noexcept;

/// A counted reference to a hold_node, or none.
class node_ref {
 public:
  node_ref() noexcept = default;
  explicit node_ref(hold_node* n) noexcept : node_{n} { if (node_ != nullptr) retain(node_); }
  node_ref(node_ref const& other) noexcept : node_ref{other.node_} {}
  node_ref(node_ref&& other) noexcept : node_{std::exchange(other.node_, nullptr)} {}
  node_ref& operator=(node_ref other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~node_ref() { if (node_ != nullptr) let_go(node_); }

  hold_node* get() const noexcept { return node_; }
  hold_node* operator->() const noexcept { return node_; }
  hold_node& operator*() const noexcept { return *node_; }
  explicit operator bool() const noexcept { return node_ != nullptr; }

 private:
  hold_node* node_ = nullptr;
};

using release_handler = boost::asio::any_completion_handler<void(error_code, bool)>;
using lost_handler = boost::asio::any_completion_handler<void(error_code)>;
using acquire_handler = boost::asio::any_completion_handler<void(error_code, hold)>;
using close_handler = boost::asio::any_completion_handler<void(error_code)>;

void start_release(node_ref node, release_handler handler);
void start_lost(node_ref node, lost_handler handler);

}  // namespace detail
}  // namespace conch
