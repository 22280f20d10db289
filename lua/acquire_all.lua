-- Tries many locks: takes them in the order given, up to the first that somebody has or waits for. What is behind that is
-- not touched, so that nothing is taken that must be given back.
-- KEYS lock queue fence, for each   ARGV retention not_after(0: none), then id lease for each
-- Answers {now fence...}, one for each that is taken · {3 0 now} too late to be done
local retention, not_after = ARGV[1], ARGV[2]
local lock_key, queue_key, fence_key
-- @include lib/lock.lua

if not_after ~= '0' and now > tonumber(not_after) then
  return {3, 0, now}
end

local function take(id, lease)
  if redis.call('EXISTS', lock_key, queue_key) == 0 then
    local fence, digits = next_fence(0)
    own(id, digits, 'h', lease)
    return fence
  end
  local owner, fence, state = parse(redis.call('GET', lock_key) or '')
  if owner ~= id then
    return nil
  end
  extend(lock_key, id, fence, state, tonumber(lease))
  return tonumber(fence)
end

local answer = {now}
for i = 1, #KEYS / 3 do
  lock_key, queue_key, fence_key = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  -- What cannot be read or written ends it like what is busy: an error here would hide what has been taken. The acquire of
  -- that lock alone, which follows, tells what is wrong.
  local done, fence = pcall(take, ARGV[2 * i + 1], ARGV[2 * i + 2])
  if not done or not fence then
    break
  end
  answer[i + 1] = fence
end
return answer
