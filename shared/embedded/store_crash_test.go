package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"berth/shared/embedded"
	"berth/shared/state"
)

// crashFile tells the child process which file to write to.
const crashFile = "BERTH_TEST_CRASH_FILE"

const crashWriters = 6

// TestCrashedProcess is not a test: it is the process that TestAcknowledgedCommitsSurviveKills
// kills. Each of its writers increments two rows of its own in one commit, and prints a line when
// the commit is acknowledged.
func TestCrashedProcess(t *testing.T) {
	path := os.Getenv(crashFile)
	if path == "" {
		t.Skip("only TestAcknowledgedCommitsSurviveKills runs this")
	}
	s, err := embedded.OpenStore(embedded.StoreOptions{Path: path, Consumers: []string{"one"}})
	if err != nil {
		t.Fatal(err)
	}
	var out sync.Mutex
	var all sync.WaitGroup
	for w := range crashWriters {
		all.Go(func() {
			for rev := counted(s, w, "x") + 1; ; rev++ {
				err := s.Commit(context.Background(), state.Commit{
					Cluster: "c", Version: state.NoVersion,
					Writes: []state.Write{{Put: instance(fmt.Sprint(w, "x"), rev)},
						{Put: instance(fmt.Sprint(w, "y"), rev)}},
				})
				if err != nil {
					fmt.Println("failed", err)
					return
				}
				out.Lock()
				fmt.Println("acknowledged", w, rev)
				out.Unlock()
			}
		})
	}
	all.Wait()
}

func counted(s *embedded.Store, writer int, half string) int64 {
	row, err := s.Get(context.Background(), state.KeyOf(instance(fmt.Sprint(writer, half), 0)))
	if err != nil || row == nil {
		return 0
	}
	return row.Header().Rev
}

// TestAcknowledgedCommitsSurviveKills kills a writing process many times, each time at another
// moment. Every acknowledged commit must be there, whole, with its stream records, and the file
// must still work.
func TestAcknowledgedCommitsSurviveKills(t *testing.T) {
	path := tempPath(t)
	random := rand.New(rand.NewPCG(1, 2))
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	total := 0
	for round := range rounds {
		acknowledged, n := crash(t, path, 1+random.IntN(200))
		total += n
		s, err := embedded.OpenStore(embedded.StoreOptions{Path: path, Consumers: []string{"one"}})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for w := range crashWriters {
			x, y := counted(s, w, "x"), counted(s, w, "y")
			if x != y || x < acknowledged[w] {
				t.Errorf("round %d: rows of writer %d at %d and %d, %d was acknowledged", round, w, x, y,
					acknowledged[w])
			}
		}
		streamed(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if total < rounds {
		t.Errorf("%d commits were acknowledged in %d rounds: the test tests nothing", total, rounds)
	}
}

// streamed expects exactly one record of every change, and acknowledges them.
func streamed(t *testing.T, s *embedded.Store) {
	t.Helper()
	records := s.PendingRecords("one")
	last := map[state.Key]int64{}
	for i, r := range records {
		if i > 0 && r.Sequence <= records[i-1].Sequence {
			t.Fatalf("record %s comes after %s", r.Sequence, records[i-1].Sequence)
		}
		rev := r.New.Header().Rev
		if r.Old != nil && r.Old.Header().Rev != rev-1 || last[r.Key] != 0 && last[r.Key] != rev-1 {
			t.Fatalf("record of %v: revision %d after %d", r.Key, rev, last[r.Key])
		}
		last[r.Key] = rev
	}
	for key, rev := range last {
		row, err := s.Get(context.Background(), key)
		if err != nil || row == nil || row.Header().Rev != rev {
			t.Errorf("the last record of %v has revision %d, the row is %v (%v)", key, rev, row, err)
		}
	}
	if len(records) == 0 {
		t.Error("no records")
		return
	}
	s.AckRecords("one", records[len(records)-1].Sequence)
}

// crash starts the child, kills it after n acknowledgements and returns the last of each writer.
func crash(t *testing.T, path string, n int) (acknowledged [crashWriters]int64, lines int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashedProcess$")
	cmd.Env = append(os.Environ(), crashFile+"="+path)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for scan := bufio.NewScanner(stdout); scan.Scan(); {
		var w int
		var rev int64
		if _, err := fmt.Sscanf(scan.Text(), "acknowledged %d %d", &w, &rev); err != nil {
			said.WriteString(scan.Text() + "\n")
			continue
		}
		acknowledged[w] = rev
		if lines++; lines == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		} // lines printed before the kill still count
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if lines < n || !errors.As(err, &exit) {
		t.Fatalf("the process ended by itself (%v) after %d acknowledgements:\n%s", err, lines, said.String())
	}
	return acknowledged, lines
}
