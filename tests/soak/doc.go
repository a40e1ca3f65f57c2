// Package soak keeps `berth up` under mixed load for as long as it is told: reads of all kinds,
// services that grow, shrink and roll out, machines that drain, die and join. Then memory must be
// flat, reads fast, and no call may have failed but for throttling. `make soak HOURS=1` runs it at
// full size; the test alone is a small run of seconds. Start at [TestSoak].
package soak
