-- Takes a lock from all its owners, or from one of them, and passes it on: for operators. An owner that loses it is told before the
-- next one, by a push "!ID KEY". If there are many owners, one script takes only some: send it again, with what it answered.
-- KEYS lock queue fence ends   ARGV claim retention fence(all; or that of the owner that is meant), and to continue: last from (else empty, or none); shard (lib/channel.lua)
-- Answers {from how many, now}, then if it passed it on, or there is more: {1 if there are waiters behind its new owners + 2 for more to
-- take + 4 for more to pass on (send a release at once), kind(0: a mutex, else its letter), limit}, and for more to take {last from}: of
-- owners with greater fences than `last` none is meant, and of those that are left all end after `from`
local lock_key, queue_key, fence_key, ends_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local watchers_key, alert_key = lock_key .. ':w', lock_key .. ':a'
local claim, retention, everyone, only = ARGV[1], tonumber(ARGV[2]), ARGV[3] == 'all', tonumber(ARGV[3])
local last, from, shard = tonumber(ARGV[4]), ARGV[5] ~= '' and ARGV[5] or nil, ARGV[6]
-- @include lib/lock.lua
-- @include lib/pass_on.lua
-- @include lib/freed.lua

exact = true

-- Changes nothing, but is a write: at a replica the script fails here, and not after it has told the owners.
redis.call('ZREM', queue_key, '')

local function tell(owner)
  redis.call(publish, channel_of(owner), '!' .. owner .. ' ' .. lock_key)
end

if redis.call('TYPE', lock_key).ok ~= 'hash' then
  local value = redis.call('GET', lock_key)
  local owner, fence = parse(value or '')
  if value and not owner then
    return not_a_lock()
  end
  if not owner or last or (not everyone and tonumber(fence) ~= only) then
    return {0, now}
  end
  tell(owner)
  local _, taken, unfinished = nil, false, false
  if redis.call('EXISTS', queue_key) == 1 then
    _, taken, unfinished = pass_on(nil, 0, tonumber(fence))
  end
  if not taken then
    if unfinished then
      redis.call('DEL', lock_key)
      return {1, now, 4, 0, 1}
    end
    local deleted = redis.pcall('DEL', lock_key, alert_key)
    if deleted == 2 then
      tell_freed()
    elseif deleted ~= 1 then
      redis.call('DEL', lock_key) -- as in lib/freed.lua
    end
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
-- @include lib/known.lua
-- @include lib/permits.lua

local chosen, rest = {}, false
local function choose(owner_id, owner)
  if owner and owner.weight > 0 and owner.fence <= (last or owner.fence) and (everyone or owner.fence == only) then
    chosen[#chosen + 1] = {owner_id, owner}
  end
end
if indexed then
  local some = redis.call('ZRANGE', ends_key, from and '(' .. from or '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, most_steps, 'WITHSCORES')
  local is_full, ids = #some == 2 * most_steps, {}
  from = some[#some]
  for i = 1, #some, 2 do
    if not is_full or some[i + 1] ~= from then
      ids[#ids + 1] = some[i]
    end
  end
  -- Owners whose leases end at the same moment, since one script let them in or renewed them, go together: the next script begins behind them,
  -- even if some of them give the lock back meanwhile.
  for _, owner_id in ipairs(is_full and redis.call('ZRANGE', ends_key, from, from, 'BYSCORE', 'LIMIT', 0, 10 * most_steps) or {}) do
    ids[#ids + 1] = owner_id
  end
  for _, owner_id in ipairs(ids) do
    choose(owner_id, parse_part(redis.call('HGET', lock_key, owner_id)))
  end
  rest = is_full and (everyone or #chosen == 0)
else
  local all = redis.call('HGETALL', lock_key)
  for i = 1, #all, 2 do
    choose(all[i], parse_part(all[i + 1]))
  end
end
-- Owners that are granted it from now on are not meant: an order in several scripts takes it from those that had it when the order came.
if rest and not last then
  last = only or next_fence(0)
end
table.sort(chosen, function(a, b) return a[2].fence < b[2].fence end)
for _, one in ipairs(chosen) do
  tell(one[1])
  take_back(one[1], one[2])
end
-- Without owners the lock itself may be gone, and with it what tells the next script whom to let in.
rest = rest and used > 0
local others, more = 0, false
if #chosen > 0 or (last and not rest) then
  local _
  _, _, others, more = admit(nil, 0, #chosen > 0 and chosen[#chosen][2].fence or 0)
end
if used == 0 and not (unfinished and more) and redis.pcall('DEL', alert_key) == 1 then
  tell_freed()
end
local flags = (others > 0 and more and 1 or 0) + (rest and 2 or unfinished and more and 4 or 0)
if others == 0 and flags == 0 then
  return {#chosen, now}
end
return {#chosen, now, flags, string.byte(kind), limit, rest and last or nil, rest and tonumber(from) or nil}
