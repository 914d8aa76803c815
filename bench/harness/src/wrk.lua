-- Requests for wrk, from ten thousand users in turn: check-get and check-post for Tollgate, or limitador's. An argument
-- after the name of the requests is a token to send.

local requests = {}
local turn = 0

function init(arguments)
  local authorization = arguments[2] and "Bearer " .. arguments[2]
  for number = 0, 9999 do
    local user = string.format("user-%06d", number)
    if arguments[1] == "check-post" then
      local body = '{"attributes":{"user":"' .. user .. '"},"cost":1}'
      requests[number] = wrk.format("POST", "/v1/check", { ["Content-Type"] = "application/json", ["Authorization"] = authorization }, body)
    elseif arguments[1] == "limitador" then
      local body = '{"namespace":"bench","values":{"user":"' .. user .. '"},"delta":1}'
      requests[number] = wrk.format("POST", "/check_and_report", { ["Content-Type"] = "application/json" }, body)
    else
      requests[number] = wrk.format("GET", "/v1/check?user=" .. user .. "&cost=1", { ["Authorization"] = authorization })
    end
  end
end

function request()
  turn = (turn + 1) % 10000
  return requests[turn]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    "FIGURES requests=%d micros=%d p50_micros=%d failures=%d\n",
    summary.requests, summary.duration, latency:percentile(50),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout
  ))
end
