"""Files that are put into a training job. They import nothing but the standard library."""
