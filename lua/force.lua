-- Takes a lock from all who own it, or from one of them, and passes it on: for operators. Whoever loses it is told before the
-- next is, by a push "!ID KEY".
-- KEYS lock queue fence   ARGV claim retention fence(0: all; else the owner whose it is)
-- Answers {from how many, now}, then if it passed it on: {1 if somebody waits behind its new owners, kind(0: a mutex, else its letter), limit}
local lock_key, queue_key, fence_key = KEYS[1], KEYS[2], KEYS[3]
local claim, retention, only = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- @include lib/lock.lua

-- Changes nothing, but is a write: at a replica the script fails here, and not after it has told the owners.
redis.call('ZREM', queue_key, '')

local function tell(owner)
  redis.call('PUBLISH', 'conch:' .. string.match(owner, '^[^.]*'), '!' .. owner .. ' ' .. lock_key)
end

if redis.call('TYPE', lock_key).ok ~= 'hash' then
  local value = redis.call('GET', lock_key)
  local owner, fence = parse(value or '')
  if value and not owner then
    return not_a_lock()
  end
  if not owner or (only > 0 and tonumber(fence) ~= only) then
    return {0, now}
  end
  tell(owner)
  local _, taken = nil, false
  if redis.call('EXISTS', queue_key) == 1 then
    _, taken = pass_on(nil, 0, tonumber(fence))
  end
  if not taken then
    redis.call('DEL', lock_key)
    return {1, now}
  end
  return {1, now, redis.call('EXISTS', queue_key), 0, 1}
end

-- @include lib/part.lua
local kind, asked_limit = parse_sums(redis.call('HGET', lock_key, 'sums'))
if not kind then
  return not_a_lock()
end
local id, weight, visited, limit, patient = '-', '0', '-', asked_limit, false
-- @include lib/permits.lua

local chosen = {}
local all = redis.call('HGETALL', lock_key)
for i = 1, #all, 2 do
  local owner = parse_part(all[i + 1])
  if owner and (only == 0 or owner.fence == only) then
    owner.id = all[i]
    chosen[#chosen + 1] = owner
  end
end
table.sort(chosen, function(a, b) return a.fence < b.fence end)
for _, owner in ipairs(chosen) do
  tell(owner.id)
  redis.call('HDEL', lock_key, owner.id)
  used = used - owner.weight
  mark(owner.segment, '0')
end
if #chosen > 0 then
  write()
  local _, _, others, more = admit(nil, 0, chosen[#chosen].fence)
  if others > 0 then
    return {#chosen, now, more and 1 or 0, string.byte(kind), limit}
  end
end
return {#chosen, now}
