-- What one client asks of several mutexes at once: each is done, and answered, as by lua/acquire.lua or lua/release.lua alone, also where
-- another one ends in an error. No lock is in it twice. None is patient, and no release a keep.
-- KEYS of those to acquire the locks, then their queues, then their fences; the same of those to release
-- ARGV how many to acquire, mode(wait|try|next: a try, and only if all before it are granted) lease claim retention votes(1, or 0) shard(lib/channel.lua, or empty)
-- then for each to acquire: id ticket not_after, for a vote proposal, for `next` its own lease; for each to release: id new_id, for a vote floor ahead
-- Mostly none has more than its id: then these are left out, for all of them.
-- Answers a list of what each would have been answered alone, in this order. A release may be answered {1 0 0 now} where alone it is 1.
local KEYS, ARGV = KEYS, ARGV
local asked, mode, lease, retention, votes = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[5], ARGV[6] == '1'
local count = #KEYS / 3
local returned = count - asked
local ids_alone = #ARGV == 7 + count
local width, width_of_release = ids_alone and 1 or (votes or mode == 'next') and 4 or 3, ids_alone and 1 or votes and 4 or 2
local first_key, first_argument = 3 * asked, 8 + asked * width
-- @include lib/clock.lua

local answers, unanswered, found_before = {}, asked, {}

-- Mostly all of them are free, and the queues are empty: that is asked of all at once. What follows up to the functions is for the usual
-- cases, and makes nothing that only the others need.
local all_free = asked == 0 or redis.pcall('EXISTS', unpack(KEYS, 1, 2 * asked)) == 0
if all_free and ids_alone and clock > 0 then
  local digits = string.format('%.0f', clock)
  for i = 1, asked do
    local lock_key, fence_key, id = KEYS[i], KEYS[2 * asked + i], ARGV[7 + i]
    -- @include lib/take_free.lua
    if taken then
      answers[i], unanswered = clock, unanswered - 1
    else
      found_before[i] = before
    end
  end
end

-- And mostly the owner gives back, and the queue is empty: so these are deleted likewise.
local values, all_plain, deleted = {}, returned > 0, 0
if returned > 0 then
  values = redis.pcall('MGET', unpack(KEYS, first_key + 1, first_key + returned))
  local at, both_keys = first_argument, {}
  for i = 1, returned do
    if not values[i] or not (ids_alone or ARGV[at + 1] == '') or string.find(values[i], ARGV[at] .. ' ', 1, true) ~= 1 then
      all_plain = false
      break
    end
    local key = KEYS[first_key + i]
    both_keys[i], both_keys[returned + i] = key, key .. ':a'
    at = at + width_of_release
  end
  all_plain = all_plain and redis.pcall('EXISTS', unpack(KEYS, first_key + returned + 1, first_key + 2 * returned)) == 0
  if all_plain and votes then
    local fences = redis.pcall('MGET', unpack(KEYS, first_key + 2 * returned + 1, first_key + 3 * returned))
    for i = 1, returned do
      local least = tonumber(ARGV[first_argument + (i - 1) * width_of_release + 2])
      if least and (tonumber(fences[i] or 0) or 0) < least then
        all_plain = false
      end
    end
  end
  if all_plain then
    deleted = redis.pcall('DEL', unpack(both_keys))
    all_plain = type(deleted) == 'number'
  end
  if all_plain then
    for i = 1, returned do
      answers[asked + i] = 1
    end
  else
    deleted = 0
  end
end
if unanswered == 0 and (all_plain or returned == 0) and deleted <= returned then
  return answers
end

local claim, shard = tonumber(ARGV[4]), ARGV[7]
local lock_key, queue_key, fence_key = KEYS[1], nil, nil
local id, ticket, not_after, proposal, floor
local state_of_mine = votes and 'c' or 'h'
-- @include lib/own.lua

-- An error of one lock stays with that one, and nothing of it with the next. Of `next` it is one that is not granted: the acquire of that lock
-- alone, which follows, tells what is wrong.
local function alone(work, argument)
  local fine, answer = pcall(work, argument)
  if fine then
    return answer
  end
  if redis.set_repl then
    redis.set_repl(redis.REPL_ALL)
  end
  if mode == 'next' then
    return {2, 0, now}
  end
  -- Before 7.0 the text begins with its place in the script.
  return {err = (string.gsub(type(answer) == 'table' and answer.err or tostring(answer), '^.*@user_script: ?%d+: %-?', ''))}
end

local function to_acquire(i)
  lock_key, queue_key, fence_key = KEYS[i], KEYS[asked + i], KEYS[2 * asked + i]
  local at = 8 + (i - 1) * width
  id, ticket, not_after, proposal = ARGV[at], '0', '0', nil
  if not ids_alone then
    ticket, not_after, proposal = ARGV[at + 1], ARGV[at + 2], votes and tonumber(ARGV[at + 3]) or nil
  end
  floor = (proposal or 1) - 1
  if mode == 'next' then
    lease = tonumber(ARGV[at + 3])
  end
  if not_after ~= '0' and now > tonumber(not_after) then
    return {3, 0, now}
  end
end

-- For `next`: whether one before was not granted.
local stopped = false
local function not_reached()
  return stopped and {2, 0, now} or nil
end
local function reached(answer)
  stopped = stopped or mode == 'next' and type(answer) ~= 'number' and answer[1] ~= 1
end

local function grant(found)
  local fence, digits = next_fence(floor, found)
  own(id, digits, state_of_mine, lease)
  return granted(fence, proposal)
end

if all_free and unanswered > 0 then
  for i = 1, asked do
    if not answers[i] then
      answers[i] = to_acquire(i) or not_reached() or alone(grant, found_before[i])
      reached(answers[i])
    end
  end
  if (all_plain or returned == 0) and deleted <= returned then
    return answers
  end
end

local wait, patient, keep = mode == 'wait', false, false
local new_id, vote_floor, ahead
local watchers_key, alert_key
lease = tonumber(lease)
-- @include lib/acquire.lua
-- @include lib/acquire_free.lua
-- @include lib/release.lua

-- All of them together keep the server no longer from others than one would.
most_steps = math.max(1, math.floor(most_steps / count))

local function acquire(value)
  ticket = tonumber(ticket)
  if not value and redis.call('EXISTS', lock_key, queue_key) == 0 then
    return grant()
  end
  local answer = ask(value or redis.call('GET', lock_key))
  if mode == 'next' and not confirmed and (not answer or answer.err) then
    return {2, 0, now}
  end
  return answer or take()
end

if not all_free then
  local owned = redis.pcall('MGET', unpack(KEYS, 1, asked))
  for i = 1, asked do
    exact, gives_back = false, nil
    answers[i] = to_acquire(i) or not_reached() or alone(acquire, owned[i])
    reached(answers[i])
  end
end

local function release(value)
  return give_back(value or redis.call('GET', lock_key))
end

for i = 1, returned do
  lock_key, queue_key, fence_key = KEYS[first_key + i], KEYS[first_key + returned + i], KEYS[first_key + 2 * returned + i]
  watchers_key, alert_key = lock_key .. ':w', lock_key .. ':a'
  exact, gives_back = false, nil
  if not all_plain then
    local at = first_argument + (i - 1) * width_of_release
    id, new_id = ARGV[at], not ids_alone and ARGV[at + 1] ~= '' and ARGV[at + 1] or nil
    vote_floor, ahead = votes and tonumber(ARGV[at + 2]) or nil, votes and tonumber(ARGV[at + 3]) or nil
    answers[asked + i] = alone(release, values[i])
  elseif deleted > returned then
    tell_freed()
  end
end
return answers
