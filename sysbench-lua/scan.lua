-- The whole table, with a condition that no row meets, as text.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")

function thread_init()
  twin.connect()
end

function event()
  twin.query("SELECT * from sbtest1 WHERE LENGTH(c) < 0")
end
