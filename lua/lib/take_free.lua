-- Takes a mutex that nobody has or waits for, as mostly: with the fence that the clock shows. `taken` says whether it has. If not, it is for
-- next_fence() and own(), which know the other cases and say what is wrong; next_fence() has to be given `before`, the fence that was there: it is
-- overwritten by now. A piece of code to stand where it is needed, since to make a function costs a script more than to run it. The caller defines
-- lock_key, fence_key, id, lease, retention, and digits: the clock as text, which must be above 0.
local before = redis.pcall('SET', fence_key, digits, 'PX', retention, 'GET')
-- As texts of one length: to make a number of it costs as much as a command.
local taken = not before or type(before) == 'string' and #before == #digits and before < digits
if taken then
  taken = not redis.pcall('SET', lock_key, id .. ' ' .. digits .. ' h', 'PX', lease).err
end
