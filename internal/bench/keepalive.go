package bench

import "time"

// What the goals of docs/performance.md and of the reconnect storm are about.
const (
	fleetAgents = 100_000
	fleetBeat   = time.Minute
	stormAgents = 10_000
)

// keepalive measures what it costs that machines report for themselves.
func keepalive() benchmark {
	return benchmark{
		name: "keepalive", short: "Keepalives of machines: how many, what a fleet costs, and what happens when all " +
			"come back at once",
		long: `Measure keepalives of agents (machine registration API, over HTTP with TLS and tokens) in three parts:

  http   a follower takes keepalives as fast as it answers them, each after the leader has it; in turn with an empty net/http handler and
         with a gateway that keeps its machines in Redis (go-redis, redislock; lock, HSET, EXPIRE). All are driven by the same connections.
  fleet  100,000 agents that beat once a minute, spread over the peers: entries of the Raft log, processor time, memory.
  storm  10,000 agents that all come back within a second: after all peers were killed, and after the leader was.`,
		example: `  holdfast-bench keepalive
  holdfast-bench keepalive --only fleet --agents 20000 --beat 20s --duration 1m
  holdfast-bench keepalive --goals --json`,
		parts: []part{
			{"http", "keepalives through a follower, side by side with others", inLab(throughput)},
			{"fleet", "a fleet in its steady state", inLab(steady)},
			{"storm", "all agents come back at once", inLab(storm)},
		},
		flags: []string{"agents", "beat", "settle", "duration", "storm", "redis-gateway", "connections", "rounds",
			"slice"},
	}
}
