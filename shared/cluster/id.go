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

// StartedBy is what ECS is given as startedBy: the short key of the service and a batch that no
// other commit of the cluster has, as the placement version that the commit makes is part of it. It
// has at most 36 characters. One batch never has two tasks on one instance; round tells apart the
// batches of one commit.
func StartedBy(short string, version int64, round int) string {
	return startedByPrefix + short + "/" + strconv.FormatInt(version, 36) + "-" + strconv.FormatInt(int64(round), 36)
}

// ParseStartedBy gives the short key of a startedBy that [StartedBy] made, and false for any other.
func ParseStartedBy(s string) (short string, ok bool) {
	rest, ok := strings.CutPrefix(s, startedByPrefix)
	if !ok {
		return "", false
	}
	short, batch, ok := strings.Cut(rest, "/")
	return short, ok && len(short) == shortLength && batch != ""
}

// BatchVersion is the placement version of a startedBy that [StartedBy] made: by that the task's
// row was written. Zero for any other.
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

// ShortKey is the key of a service, or of a cluster's standalone tasks (name empty), in rows and in
// startedBy: 12 hex digits that differ for every creation of the same name.
func ShortKey(cluster, name string, created time.Time) string {
	return hexDigest(shortLength, cluster, name, strconv.FormatInt(created.UnixNano(), 10))
}

// TaskID is the id of a task whose instance was known when it was made: 32 hex digits, the owner's
// short key and a digest of startedBy and instance. An event of ECS, which has both, leads to the
// row without a look-up, and so does the id alone.
func TaskID(startedBy, instance string) string {
	short, _ := ParseStartedBy(startedBy)
	return short + hexDigest(32-len(short), startedBy, instance)
}

// RequestedTaskID is the id of the n-th task of a request, for a task that waits for an instance.
func RequestedTaskID(short, request string, n int) string {
	return short + hexDigest(32-len(short), "request", request, strconv.Itoa(n))
}

// TaskOwner is the short key in a task's id; empty for what cannot be one.
func TaskOwner(id string) string {
	if len(id) != 32 {
		return ""
	}
	return id[:shortLength]
}

// DeploymentID is the id of a service's deployment, "ecs-svc/" and 19 digits, the same for the same
// service and time.
func DeploymentID(short string, created time.Time) string {
	sum := sha256.Sum256([]byte(short + created.UTC().Format(time.RFC3339Nano)))
	n := uint64(0)
	for _, b := range sum[:8] {
		n = n<<8 | uint64(b)
	}
	return fmt.Sprintf("ecs-svc/%019d", n%9_000_000_000_000_000_000+1_000_000_000_000_000_000)
}

// hexDigest is the first n hex digits of SHA-256 over the parts.
func hexDigest(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:n]
}

// Digest is 32 hex digits that tell one list of parts from another.
func Digest(parts ...string) string { return hexDigest(32, parts...) }

// TaskDefinitionName is family:revision.
func TaskDefinitionName(family string, revision int) string {
	return family + ":" + strconv.Itoa(revision)
}
