package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// startedByPrefix marks ECS tasks that Berth started.
const startedByPrefix = "berth/"

// StartedBy returns the startedBy of tasks that are started together: the short key of their owner
// and a batch. The batch differs from that of any other commit of the cluster, because it has the
// placement version that the commit makes. Two tasks of one batch are never on the same instance;
// round tells the batches of one commit apart.
//
// ECS allows at most 36 characters: "berth/3f9ab2c61d07/2r-0".
func StartedBy(short string, version int64, round int) string {
	return startedByPrefix + short + "/" + strconv.FormatInt(version, 36) + "-" + strconv.FormatInt(int64(round), 36)
}

// ParseStartedBy returns the short key in a startedBy of [StartedBy], and false for any other text.
func ParseStartedBy(s string) (short string, ok bool) {
	rest, ok := strings.CutPrefix(s, startedByPrefix)
	if !ok {
		return "", false
	}
	short, batch, ok := strings.Cut(rest, "/")
	return short, ok && len(short) == shortLength && batch != ""
}

// BatchVersion returns the placement version in a startedBy of [StartedBy], by whose commit the
// task's row was written. It returns 0 for any other text.
func BatchVersion(startedBy string) int64 {
	if _, ok := ParseStartedBy(startedBy); !ok {
		return 0
	}
	batch := startedBy[len(startedByPrefix)+shortLength+1:]
	version, _, _ := strings.Cut(batch, "-")
	n, err := strconv.ParseInt(version, 36, 64)
	if err != nil {
		return 0
	}
	return n
}

const shortLength = 12

// ShortKey returns the key of a service, or of a cluster's standalone tasks (name empty), in rows
// and in startedBy. It has 12 hex digits, and differs each time the name is created again.
func ShortKey(cluster, name string, created time.Time) string {
	return hexDigest(shortLength, cluster, name, strconv.FormatInt(created.UnixNano(), 10))
}

// TaskID returns the id of a task whose instance is known when it is made: 32 hex digits, of which
// the first are the owner's short key and the rest a digest of startedBy and instance. An event of
// ECS has both, so it leads to the row without a look-up.
func TaskID(startedBy, instance string) string {
	short, _ := ParseStartedBy(startedBy)
	return short + hexDigest(32-len(short), startedBy, instance)
}

// RequestedTaskID returns the id of the n-th task of a request, for a task that waits for an
// instance.
func RequestedTaskID(short, request string, n int) string {
	return short + hexDigest(32-len(short), "request", request, strconv.Itoa(n))
}

// TaskOwner returns the short key in a task's id, or the empty string if it cannot be an id.
func TaskOwner(id string) string {
	if len(id) != 32 {
		return ""
	}
	return id[:shortLength]
}

// DeploymentID returns the id of a service's deployment, "ecs-svc/" and 19 digits. It is the same
// for the same service and time.
func DeploymentID(short string, created time.Time) string {
	sum := sha256.Sum256([]byte(short + created.UTC().Format(time.RFC3339Nano)))
	n := uint64(0)
	for _, b := range sum[:8] {
		n = n<<8 | uint64(b)
	}
	return fmt.Sprintf("ecs-svc/%019d", n%9_000_000_000_000_000_000+1_000_000_000_000_000_000)
}

// hexDigest returns the first n hex digits of SHA-256 over the parts.
func hexDigest(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:n]
}

// Digest returns 32 hex digits that differ from one list of parts to another.
func Digest(parts ...string) string { return hexDigest(32, parts...) }

// TaskDefinitionName returns family:revision.
func TaskDefinitionName(family string, revision int) string {
	return family + ":" + strconv.Itoa(revision)
}
