//go:build unix

package reassign_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/cmd/berth/reassign"
	"berth/shared/placement/rebalance"
)

// tightInstances are those of set A whose lower bounds are near to the best known solutions.
var tightInstances = strings.Fields("a1_1 a1_2 a1_3 a1_5 a2_1 a2_4 a2_5")

// TestChallenge runs the instances in the folder ROADEF2012 (only INSTANCES, if it is set), SECONDS
// of CPU time each, and prints a table. They have no licence, so that they are not part of this
// repository.
func TestChallenge(t *testing.T) {
	folder := os.Getenv("ROADEF2012")
	if folder == "" {
		t.Skip("ROADEF2012 is not set to the folder of the challenge's files")
	}
	seconds, err := strconv.ParseFloat(os.Getenv("SECONDS"), 64)
	if err != nil {
		t.Fatalf("SECONDS: %v", err)
	}
	names := strings.Fields("a1_1 a1_2 a1_3 a1_4 a1_5 a2_1 a2_2 a2_3 a2_4 a2_5")
	if some := os.Getenv("INSTANCES"); some != "" {
		names = strings.Fields(some)
	}
	sum, count := 0.0, 0.0
	for _, name := range names {
		x, bound := readInstance(t, folder, name)
		began := cpuTime()
		got, err := reassign.Search(x.read(t), rebalance.Budget{Used: func() float64 {
			return (cpuTime() - began).Seconds() / seconds
		}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		check(t, parseModel(x.model), x.start, got)
		score := float64(got.Before-got.After) / float64(got.Before-bound)
		fmt.Printf("| %s | %d | %d | %.4f | %d steps; %d moves, %d staged, %d unplanned, to %d |\n", name, got.Before,
			got.After, score, got.Steps, len(got.Plan.Moves), got.Plan.Staged, got.Plan.Unplanned, got.Plan.After)
		if slices.Contains(tightInstances, name) {
			sum, count = sum+score, count+1
			if score < 0.90 {
				t.Errorf("%s: score %.4f, expected at least 0.90", name, score)
			}
		}
	}
	if count > 0 {
		fmt.Printf("mean of %v instances: %.4f\n", count, sum/count)
		if sum/count < 0.97 {
			t.Errorf("the mean score is %.4f, expected at least 0.97", sum/count)
		}
	}
}

// readInstance reads an instance and its lower bound.
func readInstance(t *testing.T, folder, name string) (x *instance, bound int64) {
	t.Helper()
	read := func(kind string) string {
		text, err := os.ReadFile(filepath.Join(folder, kind+"_"+name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	x = &instance{model: read("model")}
	for word := range strings.FieldsSeq(read("assignment")) {
		x.start = append(x.start, int32(number(word)))
	}
	return x, number(read("lb"))
}

// cpuTime returns the CPU time of this process: what a busy machine gives to others does not count.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
