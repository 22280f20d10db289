// conch: distributed locks for Boost.Asio. Boost Software License 1.0.
#pragma once

#include "engine/cohort_environment.hpp"
#include "engine/lock_entry.hpp"

#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_map>

namespace conch::engine {

/// The locks in use: one entry for each name, and one for each acquire that has its own place.
class lock_entries {
 public:
  /// `owner`: as lock_entry::in.
  lock_entries(cohort_environment& on, class cohort& owner) noexcept : on_{on}, owner_{owner} {}
  lock_entries(lock_entries const&) = delete;
  lock_entries& operator=(lock_entries const&) = delete;
  ~lock_entries();

  lock_entry& get(std::string_view name);
  lock_entry& make_single(std::string_view name, permit const& permit);
  /// None: the lock of that name is not in use, except by entries of one acquire.
  lock_entry* find(std::string_view name);
  /// Ends the entry if it is no longer needed.
  void retire(lock_entry& e);

  template <class F>
  void for_each_single(F f) {
    singles_.for_each(f);
    unseen_.for_each(f);
  }
  template <class F>
  void for_each(F f) {
    for (auto& [name, e] : named_) f(*e);
    for_each_single(f);
  }

  /// Visits all entries step by step, also while they come and go.
  void start_visit() { unseen_.splice_back(singles_); }
  enum class visited { one, none, all };
  /// One step: an entry, or those of one bucket up to the first for which `f` returns true. `one`: `f` has returned
  /// true.
  template <class F>
  visited visit_next(F f) {
    if (!unseen_.empty()) {
      lock_entry& e = unseen_.pop_front();
      singles_.push_back(e);
      return f(e) ? visited::one : visited::none;
    }
    if (buckets_ != named_.bucket_count()) {  // the table has grown since, and its entries have moved
      bucket_ = 0;
      buckets_ = named_.bucket_count();
    }
    if (bucket_ == buckets_) {
      bucket_ = buckets_ = 0;
      return visited::all;
    }
    for (auto it = named_.begin(bucket_); it != named_.end(bucket_); ++it) {
      if (f(*it->second)) return visited::one;
    }
    ++bucket_;
    return visited::none;
  }

 private:
  using named = std::unordered_map<std::string_view, std::unique_ptr<lock_entry>>;  // keys live in the entries

  cohort_environment& on_;
  cohort& owner_;
  named named_;
  named::node_type spare_;                // the entry that was retired last: a lock is often asked for again at once
  list<lock_entry> singles_;              // owned
  list<lock_entry> unseen_;               // those of them that the present visit has not come to yet
  std::size_t bucket_ = 0, buckets_ = 0;  // how far it has come in named_
};

}  // namespace conch::engine
