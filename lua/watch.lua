-- Answers whether a lock is free. If not, records that the client wants to be told when it is (lib/freed.lua).
-- KEYS lock alert watchers   ARGV id('': only continues telling, if it is free) lease shard(lib/channel.lua)
-- Answers {1 0 now} free · {0 left now} held: ask again after `left`, when the present leases have ended
local lock_key, alert_key, watchers_key = KEYS[1], KEYS[2], KEYS[3]
local id, lease, shard = ARGV[1], tonumber(ARGV[2]), ARGV[3]
-- @include lib/lock.lua
-- @include lib/owners.lua
-- @include lib/freed.lua

-- A client that is answered "free" no longer waits. That is a write: at a replica, which may not know the owner yet, the script fails here.
redis.call('ZREM', watchers_key, id)

local owners = owners_of(lock_key)
if not owners then
  return not_a_lock()
end
if owners.held == 0 then
  -- A lease that has ended told nobody: the client that finds out tells the others.
  if redis.call('DEL', alert_key) == 1 or id == '' then
    tell_freed()
  end
  return {1, 0, now}
end
local left = #owners.all == 0 and redis.call('PTTL', lock_key) or 1
for _, owner in ipairs(owners.all) do
  left = math.max(left, owner.left)
end
if id == '' then
  return {0, left, now}
end
-- It asks again when the present leases should have expired, and once more well before it is forgotten.
local lives = math.max(left + lease, redis.call('PTTL', watchers_key))
redis.call('SET', alert_key, '', 'PX', lives)
redis.call('ZADD', watchers_key, text(now), id)
local kept = redis.pcall('PEXPIRE', watchers_key, lives)
if type(kept) == 'table' then
  -- Rather than keep it forever.
  redis.call('DEL', watchers_key)
  return kept
end
-- Where a script may touch no other keys than these, the script that gives the lock back cannot notify (lib/freed.lua).
if type(redis.pcall('EXISTS', lock_key .. ':x')) == 'table' then
  left = math.min(left, 3000)
end
return {0, left, now}
