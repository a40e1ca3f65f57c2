package awsevent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"berth/shared/cluster"
)

// An envelope is an event as EventBridge delivers it, with its detail still to be read.
type envelope struct {
	ID         string          `json:"id"`
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Account    string          `json:"account"`
	Region     string          `json:"region"`
	Time       time.Time       `json:"time"`
	Resources  []string        `json:"resources"`
	Detail     json.RawMessage `json:"detail"`
	// Schedule is the whole input of Berth's own schedules.
	Schedule string `json:"schedule"`
}

// readDetail unmarshals the event's detail.
func (e *envelope) readDetail(detail any) error {
	if err := json.Unmarshal(e.Detail, detail); err != nil {
		return malformed(e.DetailType, "%v", err)
	}
	return nil
}

// malformed returns the Drop for an event that cannot be read.
func malformed(kind, format string, args ...any) error {
	return &cluster.Drop{Reason: "malformed " + kind + ": " + fmt.Sprintf(format, args...)}
}

// parseARN returns the name in an ARN of the wanted kind, and the cluster in it, which is empty in
// the old short form "task/ID".
func parseARN(e *envelope, field, arn, wanted string) (clusterName, name string, err error) {
	a, ok := cluster.ParseARN(arn)
	if !ok || a.Kind != wanted || !isName(a.Name) {
		return "", "", malformed(e.DetailType, "%s %.200q is no %s ARN", field, arn, wanted)
	}
	if e.Account != "" && (a.Account != e.Account || a.Region != e.Region) {
		return "", "", malformed(e.DetailType, "%s %.200q is not of the event's account and Region, %.40q and %.40q",
			field, arn, e.Account, e.Region)
	}
	return a.Cluster, a.Name, nil
}

// isName reports whether s can be an id or the name of a cluster. ECS allows these characters in
// names; none of them has a meaning in the key of a row.
func isName(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune(nameCharacters, r)
	})
}

const nameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
