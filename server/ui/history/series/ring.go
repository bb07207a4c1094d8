package series

import "time"

// Kind is the way in which the samples of a period are combined.
type Kind uint8

// The kinds of series.
const (
	Last Kind = iota // a level: the newest sample
	Max              // the highest sample
	Mean             // the average of the samples
	Sum              // a count of events: the total
)

// Point is a series within some periods. If Periods is 0, the value is unknown.
type Point struct {
	Value   float64
	Periods int // number of periods with a sample
}

// ring has the newest periods of a series at one resolution. The zero time is period 0.
type ring struct {
	newest int64     // the newest period
	values []float32 // by period modulo the length; of Mean the sum
	counts []uint32  // number of samples; 0 if the value is unknown
}

func newRing(keep int) ring { return ring{values: make([]float32, keep), counts: make([]uint32, keep)} }

// periodOf returns the number of the period of a time.
func periodOf(at time.Time, every time.Duration) int64 { return at.UnixNano() / int64(every) }

// oldest returns the oldest period that the ring has room for.
func (r *ring) oldest() int64 { return r.newest - int64(len(r.values)) + 1 }

// at returns the index of a period.
func (r *ring) at(period int64) int64 { return period % int64(len(r.values)) }

// add adds a sample. It ignores periods before the oldest one.
func (r *ring) add(kind Kind, period int64, v float32) {
	if period < max(0, r.oldest()) {
		return
	}
	r.advance(period)
	i := r.at(period)
	switch {
	case r.counts[i] == 0, kind == Last:
		r.values[i] = v
	case kind == Max:
		r.values[i] = max(r.values[i], v)
	default:
		r.values[i] += v
	}
	r.counts[i]++
}

// advance makes room for a period.
func (r *ring) advance(period int64) {
	for p := max(r.newest+1, period-int64(len(r.values))+1); p <= period; p++ {
		r.counts[r.at(p)] = 0
	}
	r.newest = max(r.newest, period)
}

// read combines the periods from first to last.
func (r *ring) read(kind Kind, first, last int64) Point {
	var p Point
	samples := uint32(0)
	for n := max(first, r.oldest(), 0); n <= min(last, r.newest); n++ {
		i := r.at(n)
		if r.counts[i] == 0 {
			continue
		}
		v := float64(r.values[i])
		switch {
		case p.Periods == 0, kind == Last:
			p.Value = v
		case kind == Max:
			p.Value = max(p.Value, v)
		default:
			p.Value += v
		}
		p.Periods++
		samples += r.counts[i]
	}
	if kind == Mean && samples > 0 {
		p.Value /= float64(samples)
	}
	return p
}

// Combine combines points of a series. Points of a Mean count by their number of periods.
func Combine(kind Kind, points []Point) Point {
	var total Point
	for _, p := range points {
		switch {
		case p.Periods == 0:
			continue
		case total.Periods == 0, kind == Last:
			total.Value = p.Value
		case kind == Max:
			total.Value = max(total.Value, p.Value)
		case kind == Mean:
			total.Value += (p.Value - total.Value) * float64(p.Periods) / float64(total.Periods+p.Periods)
		case kind == Sum:
			total.Value += p.Value
		}
		total.Periods += p.Periods
	}
	return total
}
