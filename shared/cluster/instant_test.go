package cluster_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
)

// An Instant has the same JSON and the same order as the time.Time that it stands for.
func TestInstantEncodesLikeTime(t *testing.T) {
	genTime := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.IntRange(0, 4).Draw(t, "none") == 0 {
			return time.Time{}
		}
		zone := time.FixedZone("", rapid.IntRange(-12, 12).Draw(t, "zone")*3600)
		return time.Unix(rapid.Int64Range(-9e9, 9e9).Draw(t, "seconds"),
			rapid.Int64Range(2, 999_999_999).Draw(t, "nanoseconds")).In(zone)
	})
	rapid.Check(t, func(t *rapid.T) {
		at, other := genTime.Draw(t, "time"), genTime.Draw(t, "other")
		i := cluster.At(at)
		if !i.Time().Equal(at) || i.Time().Location() != time.UTC || i.IsZero() != at.IsZero() {
			t.Fatalf("%v comes back as %v", at, i)
		}
		if got, want := i.Compare(cluster.At(other)), at.Compare(other); got != want {
			t.Fatalf("%v and %v compare as %d, want %d", at, other, got, want)
		}
		got, err := json.Marshal(i)
		want, _ := json.Marshal(at.UTC())
		if err != nil || string(got) != string(want) {
			t.Fatalf("JSON %s (%v), want %s", got, err, want)
		}
		zoned, _ := json.Marshal(at)
		var back cluster.Instant
		if err := json.Unmarshal(zoned, &back); err != nil || back != i {
			t.Fatalf("%s reads as %v (%v), want %v", zoned, back, err, i)
		}
	})
}

func TestInstantAtItsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Time
		want cluster.Instant
	}{
		"None":      {time.Time{}, 0},
		"NotNone":   {time.Unix(0, 0), 1},
		"TooEarly":  {time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC), math.MinInt64},
		"TooLate":   {time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		"InBetween": {time.Unix(1, 5), 1_000_000_005},
	} {
		t.Run(name, func(t *testing.T) { expect(t, "instant", cluster.At(c.at), c.want) })
	}
	if json.Unmarshal([]byte(`"yesterday"`), new(cluster.Instant)) == nil {
		t.Error("yesterday is an instant")
	}
}

func TestHealth(t *testing.T) {
	for text, want := range map[string]cluster.Health{
		`{"he":"HEALTHY"}`: cluster.Healthy, `{"he":"UNHEALTHY"}`: cluster.Unhealthy, `{}`: cluster.UnknownHealth,
	} {
		var row struct {
			Health cluster.Health `json:"he,omitempty"`
		}
		if err := json.Unmarshal([]byte(text), &row); err != nil || row.Health != want {
			t.Errorf("%s reads as %v (%v)", text, row.Health, err)
		}
		if got, err := json.Marshal(row); err != nil || string(got) != text {
			t.Errorf("%v is written as %s (%v), want %s", want, got, err, text)
		}
	}
	expect(t, "what ECS has beside", cluster.ParseHealth("UNKNOWN"), cluster.UnknownHealth)
}

func TestAWaitThatIsTooLongIsOver(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name                string
		until, longest, got time.Duration
	}{
		{"it lasts", 30 * time.Second, time.Minute, 30 * time.Second},
		{"it is over", -time.Second, time.Minute, 0},
		{"a clock that is a little ahead has stored it",
			time.Minute + cluster.MaxClockError, time.Minute, time.Minute + cluster.MaxClockError},
		{"a clock that had jumped has stored it", time.Minute + cluster.MaxClockError + 1, time.Minute, 0},
		{"a long one of its kind", time.Hour, time.Hour, time.Hour},
	} {
		if got := cluster.RemainingWait(now.Add(c.until), now, c.longest); got != c.got {
			t.Errorf("%s: %s are left, want %s", c.name, got, c.got)
		}
	}
	if got := cluster.RemainingWait(time.Time{}, now, time.Minute); got != 0 {
		t.Errorf("no time at all: %s are left, want 0", got)
	}
}

func TestIsAhead(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for ahead, want := range map[time.Duration]bool{
		-time.Hour: false, 0: false, cluster.MaxClockError: false, cluster.MaxClockError + 1: true, time.Hour: true,
	} {
		if got := cluster.IsAhead(now.Add(ahead), now); got != want {
			t.Errorf("a time %s ahead: %t, want %t", ahead, got, want)
		}
	}
}

// A protection holds until its time, unless that is much later than any protection may last: then a clock
// that had jumped has stored it.
func TestProtectionHolds(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	longest := cluster.MaxProtection + 24*time.Hour + cluster.MaxClockError
	for left, want := range map[time.Duration]bool{
		-time.Hour: false, 0: false, time.Second: true, 2880 * time.Minute: true,
		longest: true, longest + 1: false, // the present clock may be a day behind
	} {
		p := &cluster.Protection{Until: now.Add(left)}
		if p.IsActive(now) != want || p.ActiveUntil(now).IsZero() == want {
			t.Errorf("with %s left it holds: %t, until %s", left, p.IsActive(now), p.ActiveUntil(now))
		}
	}
	if none := (*cluster.Protection)(nil); none.IsActive(now) || !none.ActiveUntil(now).IsZero() {
		t.Error("no protection holds")
	}
}
