package constraint

import (
	"math"
	"testing"
)

// The texts that C's wcstod reads to their end.
func TestParseDouble(t *testing.T) {
	for text, want := range map[string]float64{
		"": 0, "0": 0, "5": 5, "-5": -5, "+5": 5, "005": 5, "5.": 5, ".5": 0.5, "-.5": -0.5, "5.25": 5.25, "1e3": 1000,
		"1E+3": 1000, "1e-3": 0.001,
		"1.5e0": 1.5, ".5e1": 5, "5.e1": 50, "0x5": 5, "0X1F": 31, "-0xff": -255, "0x.8": 0.5, "0x1.8": 1.5, "0x1.": 1,
		"0x1p4": 16, "0x1P-1": 0.5,
		"0x1.8p1": 3, "inf": math.Inf(1), "-INF": math.Inf(-1), "+Infinity": math.Inf(1), "1e999": math.Inf(1),
		"-1e999": math.Inf(-1), "1e-999": 0,
		" 5": 5, "\t\n\v\f\r 5": 5, "4.9e-324": 5e-324, "18446744073709551616": 18446744073709551616, "0x1p-2000": 0,
		"00": 0, "0e5": 0, "0xep1": 28,
	} {
		if got, ok := parseDouble(text); !ok || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"nan", "NaN", "-nan", "nan()", "nan(x_1)"} {
		if got, ok := parseDouble(text); !ok || !math.IsNaN(got) {
			t.Errorf("%q: %v, %v, want NaN", text, got, ok)
		}
	}
	for _, text := range []string{
		" ", "-", "+", ".", "+-5", "--5", "5 ", "5x", "x", "1e", "1e+", "1.2.3", "1,5", "1_0", "0x", "0x.", "0xg",
		"0x1p", "0x1p+", "0x1e+3", "0b1", "0o7",
		"infin", "infinit", "infinityx", "nan(", "nan(x", "nan(x-y)", "nanx", "1e5.5", "- 5", "true", "５", "1e3p1",
		"0x_1", "5\x00",
	} {
		if got, ok := parseDouble(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseDoubleAllocatesNothing(t *testing.T) {
	for _, text := range []string{"5", " -12.5e3", "abc", "", "inf"} {
		if n := testing.AllocsPerRun(100, func() { parseDouble(text) }); n > 0 {
			t.Errorf("%q: %v allocations", text, n)
		}
	}
}
