package wire

import (
	"encoding/json"

	"berth/shared/cluster"
)

// digest tells the parameters of one call from those of another; the token must not be part of in.
func digest(in any) (string, error) {
	canonical, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	return cluster.Digest(string(canonical)), nil
}
