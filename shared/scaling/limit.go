package scaling

import "berth/shared/cluster"

// LimitExceeded is what is said of tasks that would wait while too many already do (C4), in ECS's words.
const LimitExceeded = "The tasks provisioning capacity limit was exceeded."

// Admit is how many of the tasks asked for may wait for an instance beside those of the cluster that do already, at most
// limit in all (C4). Where that is not all of them there is a ClientException in ECS's words.
func Admit(waiting, asked, limit int) (int, error) {
	admitted := max(0, min(asked, limit-waiting))
	if admitted < asked {
		return admitted, cluster.Errorf(cluster.CodeClient, LimitExceeded)
	}
	return admitted, nil
}
