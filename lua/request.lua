-- Asks the owners of a lock to let it go: records the asker, and tells each owner by a push "*ID KEY". Takes nothing away.
-- KEYS lock requests   ARGV fence(all; or that of the owner that is meant) asker shard(lib/channel.lua)
-- Answers {how many are asked, now}: at most the first 100 by their fences; none if there are more than 1000, as in inspect
local lock_key, requests_key = KEYS[1], KEYS[2]
local everyone, only, asker, shard = ARGV[1] == 'all', tonumber(ARGV[1]), ARGV[2], ARGV[3]
-- @include lib/lock.lua
-- @include lib/owners.lua
-- @include lib/channel.lua

-- Changes nothing, but is a write: at a replica the script fails here, and not after it has told the owners.
redis.call('HDEL', requests_key, '')

local owners = owners_of(lock_key)
if not owners then
  return not_a_lock()
end
local asked, fields, longest = {}, {}, math.max(redis.call('PTTL', requests_key), 1)
for _, owner in ipairs(owners.all) do
  if #asked < 100 and (everyone or owner.fence == only) then
    asked[#asked + 1] = owner.id
    fields[#fields + 1] = text(owner.fence)
    fields[#fields + 1] = asker .. ' ' .. text(now)
    longest = math.max(longest, owner.left)
  end
end
if #asked == 0 then
  return {0, now}
end
redis.call('HSET', requests_key, unpack(fields))
local kept = redis.pcall('PEXPIRE', requests_key, longest)
if type(kept) == 'table' then
  -- Rather than keep it forever.
  redis.call('DEL', requests_key)
  return kept
end
for _, id in ipairs(asked) do
  redis.call(publish, channel_of(id), '*' .. id .. ' ' .. lock_key)
end
return {#asked, now}
