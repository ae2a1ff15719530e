-- One row with an id from the sequence, as text.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")

function thread_init()
  twin.connect()
end

function event()
  twin.query(("INSERT INTO sbtest1 (k, c, pad) VALUES (%d, '%s', '%s')"):format(
    twin.uniform(), sysbench.rand.string(twin.C), sysbench.rand.string(twin.PAD)))
end
