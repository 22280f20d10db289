-- Takes over a mutex that its owner has detached: from now on it belongs to `id`.
-- KEYS lock queue fence   ARGV id lease retention not_after(0: none) origin("ID FENCE", as the owner that detached it had it), and at a node of a
-- Cluster: shard (lib/channel.lua)
-- Answers {1 fence now} it belongs to `id`, with the fence that it had · {2 0 now} it is not the origin's any more · {3 0 now} too late to be done
local lock_key, queue_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local id, lease, retention, not_after, origin, shard = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
-- @include lib/lock.lua
-- @include lib/keep.lua
-- @include lib/channel.lua
-- @include lib/told.lua

if not_after > 0 and now > not_after then
  return {3, 0, now}
end
-- Changes nothing, but is a write: at a replica, which may not know the origin yet, the script fails here; and at full memory the next one may need
-- some.
redis.call('ZREM', queue_key, '')
local value = redis.call('GET', lock_key)
local owner, fence, state = parse(value or '')
if value and not owner then
  return not_a_lock()
end
if owner == id then
  extend(lock_key, id, fence, state, lease)
elseif owner and owner .. ' ' .. fence == origin then
  own(id, fence, 'h', lease) -- one step: another client that shows the same origin finds another owner
  tell_end(queue_key, lease, 3) -- the waiters know the lease of the previous owner
else
  return {2, 0, now}
end
keep_fence(fence_key, tonumber(fence), retention)
return {1, tonumber(fence), now}
