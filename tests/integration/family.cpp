#include "integration/family.hpp"
#include "client/checked.hpp"

namespace conch::test {

std::vector<kind_of_lock> const& kinds_of_locks() {
  static std::vector<kind_of_lock> const all{
      {"semaphore",
       [](client& c, std::string const& name, lock_options o, acquire_options w, bool once, told handler) {
         semaphore s{c, name, 1, o};
         if (once) {
           s.async_try_acquire(std::move(handler));
         } else {
           s.async_acquire(w, std::move(handler));
         }
       }},
      {"writer",
       [](client& c, std::string const& name, lock_options o, acquire_options w, bool once, told handler) {
         shared_mutex m{c, name, o};
         if (once) {
           m.async_try_acquire(std::move(handler));
         } else {
           m.async_acquire(w, std::move(handler));
         }
       }},
      {"striped",
       [](client& c, std::string const& name, lock_options o, acquire_options w, bool once, told handler) {
         striped_mutex m{c, name, 1, o};
         if (once) {
           m.async_try_acquire_any(std::move(handler));
         } else {
           m.async_acquire_any(w, std::move(handler));
         }
       }},
      {"reentrant",  // each acquire for an owner of its own; below the levels, which have a hold of another type
       [](client& c, std::string const& name, lock_options o, acquire_options w, bool once, told handler) {
         auto const lock = detail::checked_lock(c.core(), name, o);
         detail::start_acquire_permit(lock, detail::request_of(owner{}.state()), w, once, std::move(handler));
       }},
  };
  return all;
}

namespace {

kind_of_lock plain_mutex() {
  return {"mutex",
          [](client& c, std::string const& name, lock_options o, acquire_options how, bool once, told handler) {
            mutex m{c, name, o};
            if (once) {
              m.async_try_acquire(std::move(handler));
            } else {
              m.async_acquire(how, std::move(handler));
            }
          }};
}

}  // namespace

std::vector<kind_of_lock> every_kind() {
  std::vector<kind_of_lock> all{plain_mutex()};
  all.insert(all.end(), kinds_of_locks().begin(), kinds_of_locks().end());
  return all;
}

}  // namespace conch::test
