-- Holds a twin before its first event and after its last one, so that whoever started it can read
-- counters while nothing runs. A line on standard output says where it stands; it goes on when a line
-- comes in on standard input. Load it after the twin.

local prepared, done = thread_init, thread_done

sysbench.cmdline.options.warmup_events = {"Events before the gate that are not part of the run", 0}
sysbench.cmdline.options.mark = {"Statement sent twice before the first gate and once before the second", ""}

local function mark(times)
  for _ = 1, sysbench.opt.mark == "" and 0 or times do
    twin_query(sysbench.opt.mark)
  end
end

local function stop(where)
  io.stdout:write("gate: ", where, "\n")
  io.stdout:flush()
  io.stdin:read("*l")
end

-- sysbench starts its clock when all threads are through with this.
function thread_init()
  prepared()
  for _ = 1, sysbench.opt.warmup_events do
    event()
  end
  mark(2)
  stop("ready")
end

-- The connection is still there, and the backend idle.
function thread_done()
  mark(1)
  stop("done")
  done()
end
