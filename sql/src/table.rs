//! The logs as one table of DataFusion, one partition a log; blocks are read as the query asks for them, and only the columns that it
//! wants are made.
use crate::columns;
use crate::logs::{Log, Logs};
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use shmem_log::BlockBuffer;
use std::fmt;
use std::sync::Arc;

/// Accesses that make a batch, at least, while there are more.
const BATCH: usize = 8192;

pub struct Accesses {
    schema: SchemaRef,
    logs: Logs,
}

impl Accesses {
    pub fn new(logs: Logs) -> Accesses {
        Accesses { schema: columns::schema(), logs }
    }
}

impl fmt::Debug for Accesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the accesses of {} logs", self.logs.0.len())
    }
}

#[async_trait]
impl TableProvider for Accesses {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&wanted)?);
        let part = |log: &Arc<Log>| -> Arc<dyn PartitionStream> {
            Arc::new(Part { schema: schema.clone(), log: log.clone(), wanted: wanted.clone() })
        };
        let parts = self.logs.0.iter().map(part).collect();
        Ok(Arc::new(StreamingTableExec::try_new(schema.clone(), parts, None, [], false, limit)?))
    }
}

/// One log.
struct Part {
    schema: SchemaRef,
    log: Arc<Log>,
    wanted: Vec<usize>,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.log.name)
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, log, wanted) = (self.schema.clone(), self.log.clone(), self.wanted.clone());
        let (mut next, mut buffer) = (0, BlockBuffer::default());
        let batches = std::iter::from_fn(move || {
            let mut records = Vec::with_capacity(BATCH + BATCH / 8);
            while let Some(info) = log.reader.blocks().get(next)
                && records.len() < BATCH
            {
                log.read(info, &mut buffer, &mut records);
                next += 1;
            }
            (!records.is_empty()).then(|| columns::batch(&log, &records, &schema, &wanted).map_err(DataFusionError::from))
        });
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), futures::stream::iter(batches)))
    }
}
