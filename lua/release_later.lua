-- Gives the lock back when the minimum interval since its grant is over: the lease of its owner ends with the interval, and is never longer after
-- this. From any other client it is lua/release.lua, which leaves the queue.
-- KEYS lock queue fence watchers   ARGV id ends_in claim retention floor(of a vote, as in release.lua; else empty), and at a node of a Cluster:
-- shard (lib/channel.lua)
-- Answers as lua/release.lua; {1 0 0 now}: it was the owner's
local lock_key, queue_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local id, ends_in, claim, retention, vote_floor, shard = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), ARGV[6]
local keep, patient, new_id, ahead, lease = false, false, nil, nil, claim
local watchers_key, alert_key = KEYS[4], lock_key .. ':a'
-- @include lib/release.lua

local value = redis.call('GET', lock_key)
local owner, fence, state = parse(value or '')
if owner ~= id then
  return give_back(value)
end
redis.call('PEXPIRE', lock_key, ends_in)
if vote_floor then
  raise_fence(fence_key, vote_floor, retention)
end
if state == 'c' then
  redis.call('SET', lock_key, id .. ' ' .. fence .. ' h', 'PX', ends_in)
end
tell_end(queue_key, ends_in, 3)
tell_end(watchers_key, ends_in, 3)
return {1, 0, 0, now}
