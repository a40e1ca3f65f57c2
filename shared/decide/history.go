package decide

import (
	"time"
)

// KeepHistory is how long service deployments and revisions can be looked up (ECS developer guide, service deployments).
const KeepHistory = 90 * 24 * time.Hour
