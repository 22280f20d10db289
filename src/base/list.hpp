// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include <cassert>

namespace conch {

/// A place in an intrusive list. T derives from list_hook<T>. An item leaves its list when it is destroyed.
template <class T>
class list_hook {
 public:
  list_hook() = default;
  list_hook(list_hook const&) = delete;
  list_hook& operator=(list_hook const&) = delete;
  ~list_hook() { unlink(); }

  bool linked() const noexcept { return next_ != nullptr; }

  void unlink() noexcept {
    if (next_ == nullptr) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = previous_ = nullptr;
  }

 private:
  template <class U>
  friend class list;

  list_hook* next_ = nullptr;
  list_hook* previous_ = nullptr;
};

/// An intrusive list, first in first out. Adding, removing and splicing take constant time. It does not own its items.
template <class T>
class list {
 public:
  list() noexcept { head_.next_ = head_.previous_ = &head_; }
  ~list() {
    while (!empty()) pop_front();
    head_.next_ = head_.previous_ = nullptr;
  }

  bool empty() const noexcept { return head_.next_ == &head_; }
  bool has_one() const noexcept { return !empty() && head_.next_ == head_.previous_; }
  T& front() noexcept { return static_cast<T&>(*head_.next_); }

  void push_back(T& item) noexcept {
    list_hook<T>& hook = item;
    assert(!hook.linked());
    hook.previous_ = head_.previous_;
    hook.next_ = &head_;
    head_.previous_->next_ = &hook;
    head_.previous_ = &hook;
  }

  T& pop_front() noexcept {
    T& item = front();
    static_cast<list_hook<T>&>(item).unlink();
    return item;
  }

  void splice_back(list& other) noexcept {
    if (other.empty()) return;
    other.head_.next_->previous_ = head_.previous_;
    other.head_.previous_->next_ = &head_;
    head_.previous_->next_ = other.head_.next_;
    head_.previous_ = other.head_.previous_;
    other.head_.next_ = other.head_.previous_ = &other.head_;
  }

  /// Calls f for each item. f may unlink the item that it is given, and no other.
  template <class F>
  void for_each(F f) {
    for (list_hook<T>* it = head_.next_; it != &head_;) {
      list_hook<T>* const following = it->next_;
      f(static_cast<T&>(*it));
      it = following;
    }
  }

 private:
  list_hook<T> head_;
};

}  // namespace conch
