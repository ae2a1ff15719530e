-- One new c for ten random rows.

local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local twin = dofile(directory .. "lib/twin.lua")

local LENGTH = 10

local update

function thread_init()
  twin.connect()
  local sql = "UPDATE sbtest1 set c=? WHERE id IN (%s)"
  update = twin.prepare(sql:format(twin.placeholders(LENGTH)), twin.C, twin.ints(LENGTH))
end

function event()
  update(twin.uniforms(LENGTH))
end
