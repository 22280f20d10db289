-- Answers whether nobody has a lock. If somebody has, writes down who wants to be told when it is free (lib/freed.lua).
-- KEYS lock   ARGV id('': only goes on telling, if it is free) lease shard(lib/channel.lua)
-- Answers {1 0 now} nobody has it · {0 left now} somebody has, and the leases of now end in that time
local lock_key = KEYS[1]
local id, lease, shard = ARGV[1], tonumber(ARGV[2]), ARGV[3]
-- @include lib/lock.lua
-- @include lib/owners.lua
-- @include lib/freed.lua

-- Who is answered "free" waits no more. It is a write: at a replica, which may not know the owner yet, the script fails here.
redis.call('ZREM', watchers_key, id)

local owners = owners_of(lock_key)
if not owners then
  return not_a_lock()
end
if owners.held == 0 then
  if id == '' then
    redis.call('DEL', alert_key)
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
-- It asks again when the leases of now should be over, and once more in good time before it is forgotten.
local lives = math.max(left + lease, redis.call('PTTL', watchers_key))
redis.call('SET', alert_key, '', 'PX', lives)
redis.call('ZADD', watchers_key, text(now), id)
local kept = redis.pcall('PEXPIRE', watchers_key, lives)
if type(kept) == 'table' then
  -- Rather than to keep it for ever.
  redis.call('DEL', watchers_key)
  return kept
end
return {0, left, now}
