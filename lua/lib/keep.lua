-- For holds that have lasted long: their fence is kept for `kept_for` from now, and not before the clock has passed it. What is wrong
-- with its key is for whoever is granted the lock next: the hold is none the worse.
local function keep_fence(key, fence, kept_for)
  pcall(function()
    local before = tonumber(redis.call('GET', key) or 0) or 0
    local lives = kept_for + math.max(0, math.ceil((math.max(before, fence) - clock) / 1000))
    if before < fence then
      redis.call('PEXPIRE', key, text(lives)) -- as in lib/vote.lua
      redis.call('SET', key, text(fence), 'PX', text(lives))
    elseif redis.call('PTTL', key) < lives then
      redis.call('PEXPIRE', key, text(lives))
    end
  end)
end
