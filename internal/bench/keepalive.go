package bench

import "time"

// What the goals of docs/performance.md and of the reconnect storm are about.
const (
	fleetAgents = 100_000
	fleetBeat   = time.Minute
	stormAgents = 10_000
	freshAgents = 2048
)

// keepalive measures what it costs that machines report for themselves.
func keepalive() benchmark {
	return benchmark{
		name: "keepalive", short: "Measure keepalives: the rate, the cost of a fleet, and a reconnect of all agents",
		long: `Measure keepalives of agents (machine registration API, HTTP with TLS and tokens)
in four parts:

  http   keepalives through a follower without a pause, each confirmed by the
         leader; in turn with an empty net/http handler, and with a gateway that
         stores machines in Redis (go-redis, redislock; lock, HSET, EXPIRE). All
         use the same connections.
  fresh  keepalives through a follower right after the agents have registered, and
         again after all machines were polled
  fleet  100,000 agents with one keepalive a minute, spread over the peers:
         entries of the Raft log, processor time, memory
  storm  10,000 agents that reconnect within a second, after all peers were
         killed, and after the leader was`,
		example: `  holdfast-bench keepalive
  holdfast-bench keepalive --only fleet --agents 20000 --beat 20s --duration 1m
  holdfast-bench keepalive --goals --json`,
		parts: []part{
			{"http", "keepalives through a follower, compared with others", inLab(throughput)},
			{"fresh", "keepalives right after registration, compared with later ones", inLab(fresh)},
			{"fleet", "a fleet in its steady state", inLab(steady)},
			{"storm", "all agents reconnect at once", inLab(storm)},
		},
		flags: []string{"agents", "fresh", "beat", "settle", "duration", "storm", "redis-gateway", "connections", "rounds",
			"slice"},
	}
}
