package rebalance

import "math"

// A generator draws numbers that follow from a seed alone, by splitmix64. The core has no source of
// chance but seeds.
type generator struct{ state uint64 }

// nextBits returns 64 bits.
func (g *generator) nextBits() uint64 {
	g.state += 0x9e3779b97f4a7c15
	z := g.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1.
func (g *generator) below(n int) int {
	return int((g.nextBits() >> 32) * uint64(n) >> 32)
}

// exponential returns a number with mean 1, from a table: few digits are enough to decide what a
// search accepts.
func (g *generator) exponential() float64 { return exponentials[g.nextBits()>>54] }

// exponentials are the quantiles of the exponential distribution.
var exponentials = func() (out [1024]float64) {
	for n := range out {
		out[n] = -math.Log((float64(n) + 0.5) / float64(len(out)))
	}
	return out
}()
