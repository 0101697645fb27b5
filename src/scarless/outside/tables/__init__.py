"""Tables in files, one kind of file a module; `scarless.outside.table_files` is the door."""
